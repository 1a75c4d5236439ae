"""What a selection rule is, and what it may know."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from channels.part import Part, parameter

Ids = NDArray[np.int64]
Array = NDArray[np.float64]
Sampling = Literal["without_replacement", "poisson", "by_channel"]


@dataclass(frozen=True)
class Memory:
    """What selection keeps from round to round, an array of [N] each.

    Attributes:
        mean_rate: R_i, the mean rate a device was served with in bit/s/Hz (proportional-fair), else None.
        spent: The energy that a device may have spent, every update at its bound (energy-budget), else None.
        own: By name, what a rule of the user's own keeps, float64.
    """

    mean_rate: Array | None = None
    spent: Array | None = None
    own: Mapping[str, Array] = field(default_factory=dict)

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """All of it by name, those of an own rule as "own:NAME"."""
        if self.mean_rate is not None:
            yield "mean_rate", self.mean_rate
        if self.spent is not None:
            yield "spent", self.spent
        yield from ((f"own:{name}", array) for name, array in self.own.items())


@dataclass(frozen=True)
class Candidates:
    """Devices that a rule by channel chooses from, [c] each.

    Attributes:
        ids: Of the devices, ascending.
        gains: |hhat|, root mean square over antennas and elements; 0 for a rule that needs no channel knowledge.
        rates: Mean of log2(1 + SINR) over complex elements, bit/s/Hz; 0 for a rule that needs no channel knowledge.
        mean_rates: Of `Memory.mean_rate`, 0 where nothing is kept.
        spent: Of `Memory.spent`, 0 where nothing is kept.
        costs: The most energy that a round may take of the device in expectation.
        own: By name, of `Memory.own`.
    """

    ids: Ids
    gains: Array
    rates: Array
    mean_rates: Array
    spent: Array
    costs: Array
    own: Mapping[str, Array] = field(default_factory=dict)


class SelectionRule(Part):
    """Who takes part in a round. A rule derives from `BlindRule` or from `ChannelRule`.

    Attributes:
        name: What settings call it, lower case with hyphens.
        source: Where it is from.
        sampling: What the privacy ledger may assume of its draws: "without_replacement" (every subset of r devices is
            equally likely) or "poisson" (every device by itself with probability r/N), in every round anew and
            independent of anything an observer knows; "by_channel", the default, assumes nothing.
        remembers: Whether it keeps something from round to round.
    """

    source: ClassVar[str] = ""
    sampling: ClassVar[Sampling] = "by_channel"
    remembers: ClassVar[bool] = False

    def memory(self, devices: int) -> Memory:
        """What it remembers before the first round, of N devices."""
        del devices
        return Memory()

    def after(self, memory: Memory, devices: Ids, rates: Array, energy: Array) -> Memory:
        """What a rule that remembers keeps after a round.

        Args:
            memory: Before the round.
            devices: Who took part, ids, [r].
            rates: At which they were served, bit/s/Hz, [r].
            energy: What they could spend, every update at its bound, [r].
        """
        del devices, rates, energy
        return memory


class BlindRule(SelectionRule):
    """A rule that looks at nobody's channel."""

    @abstractmethod
    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Ids:
        """Ids of the devices of a round, ascending; devices: N; selected: r."""

    def count(self, generator: np.random.Generator, devices: int, selected: int) -> int:
        """How many `choose` takes, from the same draws."""
        del generator, devices
        return selected


class ChannelRule(SelectionRule):
    """A rule that chooses at most r among candidates, by what their channels are, or have cost.

    Attributes:
        needs_csi: Whether candidates send pilots before the choice.
    """

    needs_csi: ClassVar[bool] = True

    candidates: int = parameter(
        default=0,
        ge=0,
        key="candidates",
        description="devices, drawn uniformly, whose channel is estimated for a choice by it; 0 = all N",
    )

    @abstractmethod
    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """Which candidates take part, as rows of their arrays, ascending, at most `selected`."""


def some(rows: Ids, count: int, generator: np.random.Generator) -> Ids:
    """So many of these rows at random, ascending; all of them where they are fewer."""
    return np.sort(generator.choice(rows, min(count, len(rows)), replace=False, shuffle=False))


def largest(values: Array, count: int, generator: np.random.Generator) -> Ids:
    """The rows of the largest values, ascending; equal ones in random order."""
    order = np.lexsort((generator.random(len(values)), -values))
    return np.sort(order[:count])
