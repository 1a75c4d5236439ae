"""Selection of devices whose energy lasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from airfl.selection.rule import Array, Candidates, ChannelRule, Ids, Memory, some
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter


class EnergyBudget(ChannelRule):
    """r at random of those whose budget still covers the most that a round can take."""

    name = "energy-budget"
    source = "a device rests once its budget does not cover a round"
    needs_csi = False
    remembers = True

    energy_budget: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="energy_budget",
        description="energy a device may spend in the whole run, for kind = energy-budget",
    )

    def check(self) -> None:
        """There is no usual budget."""
        if self.energy_budget is None:
            raise PartError('selection.kind = "energy-budget" needs it', "energy_budget")

    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """Those who can afford a round, at random."""
        assert self.energy_budget is not None
        affordable = candidates.spent + candidates.costs <= self.energy_budget * (1 + 1e-12)
        return some(np.flatnonzero(affordable), selected, generator)

    def memory(self, devices: int) -> Memory:
        """Nothing spent."""
        return Memory(spent=np.zeros(devices))

    def after(self, memory: Memory, devices: Ids, rates: Array, energy: Array) -> Memory:
        """What could be spent is."""
        del rates
        assert memory.spent is not None
        spent = memory.spent.copy()
        spent[devices] += energy
        return replace(memory, spent=spent)
