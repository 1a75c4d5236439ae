"""Proportional-fair selection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from airfl.selection.rule import Array, Candidates, ChannelRule, Ids, Memory, largest
from channels.part import parameter


class ProportionalFair(ChannelRule):
    """Select the r largest ratios of rate to mean served rate (Kelly 1997; Viswanath, Tse, Laroia 2002)."""

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
        """Select the largest ratios of rate to mean rate. Devices that were never served come first."""
        served = np.maximum(candidates.mean_rates, np.finfo(float).tiny ** 0.5)
        return largest(candidates.rates / served, selected, generator)

    def memory(self, devices: int) -> Memory:
        """Return a memory with mean rates R_i = 0."""
        return Memory(mean_rate=np.zeros(devices))

    def after(self, memory: Memory, devices: Ids, rates: Array, energy: Array) -> Memory:
        """Update R_i <- (1 - 1/w) R_i + r_i/w, with r_i = 0 for devices that were not served."""
        del energy
        assert memory.mean_rate is not None
        mean = memory.mean_rate * (1 - 1 / self.window)
        mean[devices] += rates / self.window
        return replace(memory, mean_rate=mean)
