"""Selection of devices within an energy budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from airfl.selection.rule import Array, Candidates, ChannelRule, Ids, Memory, random_subset
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter


class EnergyBudget(ChannelRule):
    """Select r random devices among those whose remaining budget covers the largest energy of a round."""

    name = "energy-budget"
    source = "energy budget per device"
    needs_csi = False
    remembers = True

    energy_budget: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="energy_budget",
        description="energy that a device may spend in the whole run, for kind = energy-budget",
    )

    def check(self) -> None:
        """Check that a budget is set, since there is no default."""
        if self.energy_budget is None:
            raise PartError('must be set for selection.kind = "energy-budget"', "energy_budget")

    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """Select at random among the devices that can afford a round."""
        assert self.energy_budget is not None
        affordable = candidates.spent + candidates.costs <= self.energy_budget * (1 + 1e-12)
        return random_subset(np.flatnonzero(affordable), selected, generator)

    def memory(self, devices: int) -> Memory:
        """Return a memory in which no energy is spent."""
        return Memory(spent=np.zeros(devices))

    def after(self, memory: Memory, devices: Ids, rates: Array, energy: Array) -> Memory:
        """Add the largest energy of the round to the spent energy."""
        del rates
        assert memory.spent is not None
        spent = memory.spent.copy()
        spent[devices] += energy
        return replace(memory, spent=spent)
