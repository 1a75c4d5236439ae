"""Proportional-fair selection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from airfl.selection.rule import Array, Candidates, ChannelRule, Ids, Memory, largest
from channels.part import parameter


class ProportionalFair(ChannelRule):
    """The r largest rates over the mean rate a device was served with (Kelly 1997; Viswanath, Tse, Laroia 2002)."""

    name = "proportional-fair"
    source = "Viswanath, Tse, Laroia: Opportunistic beamforming using dumb antennas (2002), section II"
    remembers = True

    window: int = parameter(
        default=100,
        ge=1,
        key="window",
        description="rounds over which proportional-fair averages a device's rate",
    )

    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """By the rate over its mean; a device that was never served comes first."""
        served = np.maximum(candidates.mean_rates, np.finfo(float).tiny ** 0.5)
        return largest(candidates.rates / served, selected, generator)

    def memory(self, devices: int) -> Memory:
        """R_i = 0."""
        return Memory(mean_rate=np.zeros(devices))

    def after(self, memory: Memory, devices: Ids, rates: Array, energy: Array) -> Memory:
        """R_i <- (1 - 1/w) R_i + r_i/w, r_i = 0 for those who were not served."""
        del energy
        assert memory.mean_rate is not None
        mean = memory.mean_rate * (1 - 1 / self.window)
        mean[devices] += rates / self.window
        return replace(memory, mean_rate=mean)
