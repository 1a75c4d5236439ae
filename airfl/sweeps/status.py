"""How far a sweep is, for whoever shows it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Status:
    """How far a sweep is.

    Attributes:
        points: In all.
        before: Finished before it began.
        done: Finished since.
        failed: Failed since.
        last: The name of the last point that ended, "" at the beginning.
        cause: Why that one failed, None where it did not.
        seconds: How long that one took, nan where nobody knows.
        at_once: Points that run at a time.
    """

    points: int
    before: int = 0
    done: int = 0
    failed: int = 0
    last: str = ""
    cause: str | None = None
    seconds: float = math.nan
    at_once: int = 1

    @property
    def ended(self) -> int:
        """Points that are finished or have failed, before and since."""
        return self.before + self.done + self.failed

    def after(self, last: str, cause: str | None, seconds: float = math.nan) -> Status:
        """When one more point has ended."""
        failed = cause is not None
        done, failures = self.done + (not failed), self.failed + failed
        return replace(self, done=done, failed=failures, last=last, cause=cause, seconds=seconds)


Report = Callable[[Status], None]
