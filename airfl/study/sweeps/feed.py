"""Points that are given out while others run, as by a search whose next values depend on finished points."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from airfl.study.sweeps.job import Job


@dataclass(frozen=True)
class Reported:
    """A figure of a running point, after an evaluation.

    Attributes:
        name: The point.
        rounds: Number of finished rounds.
        value: The figure that `Job.reports` names.
    """

    name: str
    rounds: int
    value: float


@dataclass(frozen=True)
class Unwanted:
    """Tells a process that a point is no longer wanted. It stops after the round.

    Attributes:
        name: The point.
    """

    name: str


class UnwantedError(Exception):
    """Raised in a run whose point is no longer wanted."""


class Feed(Protocol):
    """Gives out points one at a time, and is told about those that run. Both may happen at any moment."""

    def more(self, at_once: int) -> Sequence[Job]:
        """Return the points to begin now. at_once: how many run at a time, including those that are running."""
        ...

    def reported(self, name: str, values: Mapping[int, float]) -> None:
        """Take figures of a running point, by number of finished rounds. They may be told more than once."""
        ...

    def unwanted(self) -> Collection[str]:
        """Return the running points that are no longer wanted."""
        ...

    @property
    def over(self) -> bool:
        """Whether there will be no more points."""
        ...


def figure_of(job: Job, record: Mapping[str, Any]) -> float | None:
    """Return the figure that is to be reported after a round; None where there was no evaluation."""
    value = float(record[job.reports]) if job.reports else float("nan")
    return value if value == value else None
