"""Shows the progress of a sweep: a bar on a terminal and in a notebook, plain lines on standard error elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from airfl.core.notebook_progress import NotebookBars
from airfl.core.progress import SECONDS_BETWEEN_LINES, Clock, Times
from airfl.runtime.text import sayable, tell
from airfl.runtime.time_left import PointsLeft, duration
from airfl.study.sweeps.status import Report, Status


class Shown:
    """The text on the progress of a sweep, with elapsed time and time left."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock, self._points = clock, PointsLeft()
        self._started = self._ended = clock()
        self._status = Status(0)

    def tell(self, status: Status) -> None:
        """Update the status when a point has ended, or at the beginning."""
        now = self._ended = self._clock()
        left = status.points - status.ended
        if not (status.done or status.failed or status.pruned):
            self._points.begin(now, status.at_once, left)
        else:
            waiting = left - min(status.at_once - 1, left)
            self._points.ended(now, status.seconds, status.cause is None, waiting)
        self._status = status

    def counts(self) -> str:
        """Return the text on the number of points."""
        status = self._status
        parts = [f"{status.before + status.done} of {status.points} points"]
        if status.before and not (status.done or status.failed or status.pruned):
            parts.append(f"{status.before} finished before")
        if status.failed:
            parts.append(f"{status.failed} failed")
        if status.pruned:
            parts.append(f"{status.pruned} pruned")
        if status.retried:
            parts.append(f"{status.retried} run again after a process or worker was lost")
        return ", ".join(parts)

    def times(self) -> str:
        """Return the text on the time elapsed and left."""
        now, points = self._clock(), self._status.points - self._status.ended
        if not points:
            return f"done in {duration(self._ended - self._started)}"
        left = self._points.left(now, points)
        return f"{duration(now - self._started)} elapsed" + (f", {left}" if left else "")


def failure(status: Status) -> str | None:
    """Return the message for a point that has just failed, or None."""
    return " ".join(f"failed: {status.last}: {status.cause}".split()) if status.cause is not None else None


@contextmanager
def sweep_progress(console: Console | None = None, clock: Clock = time.monotonic) -> Iterator[Report]:
    """Yield a function that shows the progress during the block."""
    console, shown = console or Console(stderr=True), Shown(clock)
    if console.is_jupyter:
        bars = NotebookBars(clock)
        yield lambda status: _show_in_notebook(bars, shown, status)
        return
    if not console.is_terminal:
        lines = _Lines(shown, clock)
        yield lines.show
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("points{task.fields[text]}", markup=False), Times())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None, text="", times="")

        def report(status: Status) -> None:
            line = failure(status)
            if line:
                console.print(
                    sayable(line, console.encoding), markup=False, emoji=False, highlight=False, soft_wrap=True
                )
            shown.tell(status)
            _, comma, text = shown.counts().partition(", ")
            bar.update(task, total=status.points, completed=status.ended, text=comma + text, times=shown.times)

        yield report


def _show_in_notebook(bars: NotebookBars, shown: Shown, status: Status) -> None:
    """Show a status in the output of a cell, and failures on standard error, where the notebook keeps them."""
    line = failure(status)
    if line:
        tell(line)
    shown.tell(status)
    bars.show("points", status.ended, status.points, f"{shown.counts()}, {shown.times()}")


@contextmanager
def asked_progress(asked: Report | bool | None) -> Iterator[Report | None]:
    """Yield the progress function for an argument `progress`, as in `airfl.core.progress.asked_progress`."""
    if asked is True:
        with sweep_progress() as report:
            yield report
    else:
        yield None if isinstance(asked, bool) else asked


class _Lines:
    """Prints every failure at once, and the counts from time to time."""

    def __init__(self, shown: Shown, clock: Clock) -> None:
        self._shown, self._clock = shown, clock
        self._last_line = -math.inf

    def show(self, status: Status) -> None:
        """Print a status."""
        line = failure(status)
        if line:
            tell(line)
        self._shown.tell(status)
        now = self._clock()
        first_or_last = status.ended == status.points or not (status.done or status.failed or status.pruned)
        if first_or_last or now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            tell(f"{self._shown.counts()}, {self._shown.times()}")
