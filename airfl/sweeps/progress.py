"""Progress of a sweep on standard error: done, failed, time left; a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from airfl.shown import sayable, tell
from airfl.sweeps.sweep import Report, Status

SECONDS_BETWEEN_LINES = 5.0


def text_of(status: Status, seconds: float, since_first: float) -> str:
    """Counts, and the time left as the points so far tell; seconds since the beginning, and since a first point ended,
    which tells little: processes had to start for it."""
    ran, left = status.done + status.failed, status.points - status.ended
    parts = [f"{status.before + status.done} of {status.points} points"]
    if status.before and not ran:
        parts.append(f"{status.before} finished before")
    if status.failed:
        parts.append(f"{status.failed} failed")
    if left and ran > 1:
        parts.append(f"{duration(since_first / (ran - 1) * left)} left")
    if not left:
        parts.append(f"done in {duration(seconds)}")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """For people: 12 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def failure(status: Status) -> str | None:
    """The line for a point that has just failed."""
    return " ".join(f"failed: {status.last}: {status.cause}".split()) if status.cause is not None else None


@contextmanager
def sweep_progress() -> Iterator[Report]:
    """A report for the time of the block."""
    console, clock = Console(stderr=True), _Clock()
    if not console.is_terminal:
        lines = _Lines()
        yield lambda status: lines.show(status, clock(status))
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[text]}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None, text="")

        def report(status: Status) -> None:
            line = failure(status)
            if line:
                console.print(
                    sayable(line, console.encoding), markup=False, emoji=False, highlight=False, soft_wrap=True
                )
            bar.update(task, total=status.points, completed=status.ended, text=clock(status).partition(", ")[2])

        yield report


class _Clock:
    """Writes `text_of` with the time that has passed."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._first: float | None = None

    def __call__(self, status: Status) -> str:
        now = time.monotonic()
        if self._first is None and (status.done or status.failed):
            self._first = now
        return text_of(status, now - self._started, now - (self._first or now))


class _Lines:
    """Every failure at once, the counts now and then."""

    def __init__(self) -> None:
        self._last_line = time.monotonic()

    def show(self, status: Status, text: str) -> None:
        line = failure(status)
        if line:
            tell(line)
        now = time.monotonic()
        first_or_last = status.ended == status.points or not (status.done or status.failed)
        if first_or_last or now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            tell(text)
