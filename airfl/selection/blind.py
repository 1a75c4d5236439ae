"""Who takes part in a round. A new rule is one function and one line in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airfl.streams import Purpose, Streams

Ids = NDArray[np.int64]
Sampling = Literal["without_replacement", "poisson"]


@dataclass(frozen=True)
class Selection:
    """A selection rule.

    choose(generator, N, r): device ids of a round, ascending; count(generator, N, r): only how many they are, from the
    same draws (None: always r); sampling: what the privacy ledger may assume of it.
    """

    choose: Callable[[np.random.Generator, int, int], Ids]
    count: Callable[[np.random.Generator, int, int], int] | None
    sampling: Sampling


def _uniform(generator: np.random.Generator, devices: int, selected: int) -> Ids:
    """r of N, every subset equally likely (PFELS algorithm 2, line 2)."""
    return np.sort(generator.choice(devices, selected, replace=False, shuffle=False))


def _poisson_count(generator: np.random.Generator, devices: int, selected: int) -> int:
    return int(generator.binomial(devices, selected / devices))


def _poisson(generator: np.random.Generator, devices: int, selected: int) -> Ids:
    """Every device by itself with probability r/N; drawn as a binomial count, then a uniform subset of that size."""
    return _uniform(generator, devices, _poisson_count(generator, devices, selected))


SELECTIONS: dict[str, Selection] = {
    "uniform": Selection(_uniform, None, "without_replacement"),
    "poisson": Selection(_poisson, _poisson_count, "poisson"),
}


def select(kind: str, streams: Streams, round_index: int, devices: int, selected: int) -> Ids:
    """Device ids of round t, ascending, [r^t]."""
    return SELECTIONS[kind].choose(streams.generator(Purpose.SELECT, round_index), devices, selected)


def most_selected(kind: str, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """The largest number of devices that any round of the run selects: the slots a trace needs."""
    count = SELECTIONS[kind].count
    if count is None:
        return selected
    return max(count(streams.generator(Purpose.SELECT, t), devices, selected) for t in range(rounds))
