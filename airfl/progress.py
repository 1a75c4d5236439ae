"""Progress of runs on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from airfl.record import Record
from airfl.shown import PlainFormatter, sayable, tell

SECONDS_BETWEEN_LINES = 5.0


class RoundProgress:
    """Shows the rounds of one run after another."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}
        self._marks: dict[str, tuple[float, int]] = {}
        self._last_line = 0.0
        self._accuracy = math.nan

    def reporter(self, label: str) -> Callable[[int, int, Record], None]:
        """A progress function for a single run."""
        report = self.labelled_reporter()
        return lambda done, rounds, record: report(label, done, rounds, record)

    def labelled_reporter(self) -> Callable[[str, int, int, Record], None]:
        """A progress function for many runs, told apart by label."""
        return self._report

    def _report(self, label: str, done: int, rounds: int, record: Record) -> None:
        accuracy = float(record["test_accuracy"])
        if label not in self._started:
            self._started[label], self._accuracy = time.monotonic(), math.nan
            self._marks[label] = self._started[label], done
        self._accuracy = self._accuracy if math.isnan(accuracy) else accuracy
        text = "" if math.isnan(self._accuracy) else f"accuracy {100 * self._accuracy:.1f}%"
        if self._bar is None:
            self._line(label, done, rounds, text)
            return
        if label not in self._tasks:
            shown = sayable(label, self._bar.console.encoding)
            self._tasks[label] = self._bar.add_task(shown, total=rounds, accuracy="")
        self._bar.update(self._tasks[label], completed=done, accuracy=text)

    def _line(self, label: str, done: int, rounds: int, text: str) -> None:
        now = time.monotonic()
        if done < rounds and now - self._last_line < SECONDS_BETWEEN_LINES:
            return
        ending = f"done in {now - self._started[label]:.0f} s"
        if done < rounds:
            # By the pace since the last line: a resumed run goes through what it has done in a moment.
            then, before = self._marks[label]
            pace = (now - then) / (done - before) if done > before else math.nan
            ending = "begun" if math.isnan(pace) else f"{pace * (rounds - done):.0f} s left"
        self._last_line, self._marks[label] = now, (now, done)
        tell(f"{label}: {', '.join(filter(None, (f'round {done}/{rounds}', text, ending)))}")


def _show_log() -> None:
    log = logging.getLogger("airfl")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(PlainFormatter("%(message)s"))
        log.addHandler(handler)
    log.setLevel(logging.INFO)


@contextmanager
def round_progress() -> Iterator[RoundProgress]:
    """Progress for the time of the block; what the package logs goes to standard error too."""
    console = Console(stderr=True)
    _show_log()
    if not console.is_terminal:
        yield RoundProgress(None)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[accuracy]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        yield RoundProgress(bar)
