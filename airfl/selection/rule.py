"""What a selection rule is, and what it may know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Array = NDArray[np.float64]
Sampling = Literal["without_replacement", "poisson", "by_channel"]


@dataclass(frozen=True)
class Memory:
    """What selection keeps from round to round: R_i, the mean rate a device was served with (proportional-fair), and
    the energy it may have spent, every update at its bound (energy-budget); [N] each, None for rules that need none."""

    mean_rate: Array | None = None
    spent: Array | None = None

    def after(self, devices: Ids, rates: Array, energy: Array, window: int) -> Memory:
        """After a round in which these devices were served at these rates (bit/s/Hz) and could spend that energy."""
        memory = self
        if self.mean_rate is not None:
            mean = self.mean_rate * (1 - 1 / window)
            mean[devices] += rates / window
            memory = replace(memory, mean_rate=mean)
        if self.spent is not None:
            spent = self.spent.copy()
            spent[devices] += energy
            memory = replace(memory, spent=spent)
        return memory


@dataclass(frozen=True)
class Candidates:
    """Devices a rule by channel chooses from, [c] each: ids, ascending; gains: |hhat|, root mean square over antennas
    and elements; rates: mean of log2(1 + SINR) over complex elements; mean_rates, spent: of `Memory`; costs: the
    most energy a round takes."""

    ids: Ids
    gains: Array
    rates: Array
    mean_rates: Array
    spent: Array
    costs: Array


@dataclass(frozen=True)
class Limits:
    """r; the smallest gain; the energy a device may spend in the whole run."""

    selected: int
    min_gain: float = 0.0
    energy_budget: float = float("inf")


@dataclass(frozen=True)
class Selection:
    """A selection rule.

    sampling: what the privacy ledger may assume of it; source: where it is from. A blind rule has choose(generator, N,
    r): device ids of a round, ascending, and count(generator, N, r): only how many they are, from the same draws (None:
    never more than r). A rule by channel has among(candidates, limits, generator): which candidates, as rows,
    ascending. hears: whether candidates send pilots before the choice; memory: N -> what is remembered before the first
    round.
    """

    sampling: Sampling
    source: str
    choose: Callable[[np.random.Generator, int, int], Ids] | None = None
    count: Callable[[np.random.Generator, int, int], int] | None = None
    among: Callable[[Candidates, Limits, np.random.Generator], Ids] | None = None
    hears: bool = False
    memory: Callable[[int], Memory] = lambda devices: Memory()
