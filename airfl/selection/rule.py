"""The interface of selection rules, and the information available to them."""

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
    """State of a selection rule between rounds, arrays of shape [N].

    Attributes:
        mean_rate: R_i, the mean rate at which a device was served in bit/s/Hz (proportional-fair), else None.
        spent: Upper bound on the energy that a device has spent, with every update at its bound (energy-budget), else
            None.
        own: Arrays of a user-defined rule by name, float64.
    """

    mean_rate: Array | None = None
    spent: Array | None = None
    own: Mapping[str, Array] = field(default_factory=dict)

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield all arrays by name, those of a user-defined rule as "own:NAME"."""
        if self.mean_rate is not None:
            yield "mean_rate", self.mean_rate
        if self.spent is not None:
            yield "spent", self.spent
        yield from ((f"own:{name}", array) for name, array in self.own.items())


@dataclass(frozen=True)
class Candidates:
    """Candidate devices of a rule by channel, arrays of shape [c].

    Attributes:
        ids: Device ids, ascending.
        gains: |hhat|, root mean square over antennas and elements; 0 for a rule that needs no CSI.
        rates: Mean of log2(1 + SINR) over complex elements, bit/s/Hz; 0 for a rule that needs no CSI.
        mean_rates: Entries of `Memory.mean_rate`, 0 if it is None.
        spent: Entries of `Memory.spent`, 0 if it is None.
        costs: Largest expected energy that a round may cost the device.
        own: Rows of `Memory.own` by name.
    """

    ids: Ids
    gains: Array
    rates: Array
    mean_rates: Array
    spent: Array
    costs: Array
    own: Mapping[str, Array] = field(default_factory=dict)


class SelectionRule(Part):
    """Base class of selection rules. A rule derives from `BlindRule` or from `ChannelRule`.

    Attributes:
        name: Name in settings, lower case with hyphens.
        source: Reference, if any.
        sampling: What the privacy ledger may assume: "without_replacement" (every subset of r devices is equally
            likely) or "poisson" (every device independently with probability r/N), both drawn independently in every
            round and of anything an observer knows; "by_channel", the default, assumes nothing.
        remembers: Whether the rule keeps state between rounds.
    """

    source: ClassVar[str] = ""
    sampling: ClassVar[Sampling] = "by_channel"
    remembers: ClassVar[bool] = False

    def memory(self, devices: int) -> Memory:
        """Return the memory before the first round. devices: N."""
        del devices
        return Memory()

    def after(self, memory: Memory, devices: Ids, rates: Array, energy: Array) -> Memory:
        """Return the memory after a round.

        Args:
            memory: The memory before the round.
            devices: Ids of the devices that took part, [r].
            rates: Rates at which they were served, bit/s/Hz, [r].
            energy: Upper bound on the energy they spent, with every update at its bound, [r].
        """
        del devices, rates, energy
        return memory


class BlindRule(SelectionRule):
    """A rule that does not depend on the channels. It selects exactly r devices unless it overrides `count`."""

    @abstractmethod
    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Ids:
        """Return the ids of the devices of a round, ascending. devices: N; selected: r."""

    def count(self, generator: np.random.Generator, devices: int, selected: int) -> int:
        """Return how many devices `choose` selects with the same random numbers."""
        del generator, devices
        return selected


class ChannelRule(SelectionRule):
    """A rule that selects at most r candidates based on their channels or the energy they have spent.

    Attributes:
        needs_csi: Whether candidates send pilots before the selection.
    """

    needs_csi: ClassVar[bool] = True

    candidates: int = parameter(
        default=0,
        ge=0,
        key="candidates",
        description="number of devices, drawn uniformly, whose channels are estimated for the selection; 0 = all N",
    )

    @abstractmethod
    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """Return the selected candidates as row indices, ascending, at most `selected`."""


def random_subset(rows: Ids, count: int, generator: np.random.Generator) -> Ids:
    """Return `count` random elements of the rows, ascending, or all rows if there are fewer."""
    return np.sort(generator.choice(rows, min(count, len(rows)), replace=False, shuffle=False))


def largest(values: Array, count: int, generator: np.random.Generator) -> Ids:
    """Return the rows of the largest values, ascending; ties are broken at random."""
    order = np.lexsort((generator.random(len(values)), -values))
    return np.sort(order[:count])
