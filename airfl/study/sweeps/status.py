"""The status of a sweep, for functions that show its progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Status:
    """The status of a sweep.

    Attributes:
        points: Number of points.
        before: Points finished before it began.
        done: Points finished since.
        failed: Points failed since.
        last: The name of the last point that ended; "" at the beginning.
        cause: Why that point failed; None if it did not.
        seconds: Duration of that point in s; nan if unknown.
        at_once: Number of points that run at a time.
        retried: How often a point was run again, since its process or worker was lost.
        pruned: Points stopped since, as the trial of a search to which they belong was pruned.
    """

    points: int
    before: int = 0
    done: int = 0
    failed: int = 0
    last: str = ""
    cause: str | None = None
    seconds: float = math.nan
    at_once: int = 1
    retried: int = 0
    pruned: int = 0

    @property
    def ended(self) -> int:
        """Number of points that are finished, have failed or were pruned, including earlier ones."""
        return self.before + self.done + self.failed + self.pruned

    def after(self, last: str, cause: str | None, seconds: float = math.nan, retried: int = 0) -> Status:
        """Return the status after one more point has ended."""
        failed = cause is not None
        done, failures = self.done + (not failed), self.failed + failed
        retried += self.retried
        return replace(self, done=done, failed=failures, last=last, cause=cause, seconds=seconds, retried=retried)


Report = Callable[[Status], None]
