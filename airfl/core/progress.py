"""Shows the progress of runs: bars on a terminal and in a notebook, plain lines on standard error elsewhere."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from airfl.core.notebook_progress import NotebookBars
from airfl.core.record import KeptRecord, Record
from airfl.errors import escaped
from airfl.runtime.interrupt import told_by
from airfl.runtime.text import PlainFormatter, sayable, tell
from airfl.runtime.time_left import Left, Pace, RunLength, duration

if TYPE_CHECKING:
    from airfl.config import Settings

SECONDS_BETWEEN_LINES = 5.0
SHOWN = 8
"""Largest number of bars for single runs."""
Clock = Callable[[], float]


@dataclass(frozen=True)
class Planned:
    """A planned run.

    Attributes:
        label: Its label.
        row: Its row of a comparison. Runs of one row take equally long.
        rounds: Its rounds.
    """

    label: str
    row: str
    rounds: RunLength


class _Run:
    """A run in progress: when this process started it, how many rounds are done, and when the last one ended."""

    def __init__(self, planned: Planned, pace: Pace, started: float) -> None:
        self.planned, self.pace, self.started = planned, pace, started
        self.done, self.at, self.measured = 0, started, False

    def left(self, now: float) -> Left | None:
        """Estimate the time left at time `now`, minus the time already spent on the current round."""
        if self.done >= self.planned.rounds.rounds:
            return Left(0.0)
        left = self.pace.left(self.planned.rounds, self.done) if self.done else None
        if left is None:
            return None
        under_way = min(now - self.at, self.pace.of_a_round) if now > self.at else 0.0
        return Left(max(left.seconds - under_way, 0.0), left.at_least)


class RoundProgress:
    """Shows the rounds of one run after another.

    Args:
        bar: Bars on a terminal, or in a notebook; None for plain lines.
        plan: All runs in order, if they are known.
        clock: Returns the time in s.
    """

    def __init__(
        self, bar: Progress | NotebookBars | None, plan: Sequence[Planned] = (), clock: Clock = time.monotonic
    ) -> None:
        self._bar, self._clock = bar, clock
        self._plan = {planned.label: planned for planned in plan}
        self._runs: dict[str, _Run] = {}
        self._paces: dict[str, Pace] = {}
        self._all = Pace()
        self._tasks: dict[str, TaskID] = {}
        self._begun = self._ended = clock()
        self._last_line = -math.inf
        self._accuracy = math.nan

    def reporter(self, label: str) -> Callable[[int, int, Record], None]:
        """Return a progress function for a single run."""
        report = self.labelled_reporter()
        return lambda done, rounds, record: report(label, done, rounds, record)

    def labelled_reporter(self) -> Callable[[str, int, int, Record], None]:
        """Return a progress function for several runs, which it distinguishes by label."""
        return self._report

    def _report(self, label: str, done: int, rounds: int, record: Record) -> None:
        accuracy = float(record["test_accuracy"])
        run = self._runs.get(label) or self._begin(label, rounds)
        now = self._clock()
        if not isinstance(record, KeptRecord):  # rounds of an earlier process take no time in this one
            evaluated = not (math.isnan(accuracy) and math.isnan(float(record.get("test_loss", math.nan))))
            for pace in (run.pace, self._all):
                pace.add(now - run.at, evaluated, not run.measured)
            run.measured = True
        run.done, run.at = done, now
        self._accuracy = accuracy if not math.isnan(accuracy) else self._accuracy
        text = "" if math.isnan(self._accuracy) else f"accuracy {100 * self._accuracy:.1f}%"
        if self._bar is None:
            self._line(run, text, now)
        elif isinstance(self._bar, NotebookBars):
            self._bar.show(label, done, rounds, self._in_words(run, text, now))
        else:
            self._draw(self._bar, run, text)
        if done == rounds:
            self._ended = self._clock()

    def _begin(self, label: str, rounds: int) -> _Run:
        planned = self._plan.get(label) or Planned(label, label, RunLength(rounds))
        self._runs[label] = _Run(planned, self._paces.setdefault(planned.row, Pace()), self._ended)
        self._accuracy = math.nan
        return self._runs[label]

    def _line(self, run: _Run, text: str, now: float) -> None:
        rounds = run.planned.rounds.rounds
        if run.done < rounds and now - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        tell(f"{escaped(run.planned.label)}: {self._in_words(run, text, now)}")

    def _in_words(self, run: _Run, text: str, now: float) -> str:
        """Return how far a run is, its accuracy and times, and those of all runs."""
        parts = [f"round {run.done}/{run.planned.rounds.rounds}", text, self._times(run, now)]
        whole = self._whole(run, now)
        return f"{', '.join(filter(None, parts))}{whole and f'; {whole}'}"

    def _times(self, run: _Run, now: float) -> str:
        """Return the text on the time of a run: elapsed and left, or total."""
        if run.done >= run.planned.rounds.rounds:
            return f"done in {duration(run.at - run.started)}"
        left = run.left(now)
        return f"{duration(now - run.started)} elapsed" + (f", {left}" if left else "")

    def _whole(self, run: _Run, now: float) -> str:
        """Return the text on all runs: which one this is, and their time left; "" for a single run."""
        if len(self._plan) < 2 or run.planned.label not in self._plan:
            return ""
        place = list(self._plan).index(run.planned.label)
        which = f"run {place + 1} of {len(self._plan)}"
        left = self._left_of_all(run, list(self._plan.values())[place + 1 :], now)
        over = place + 1 == len(self._plan) and run.done >= run.planned.rounds.rounds
        if over:
            return f"{which}, all done in {duration(now - self._begun)}"
        elapsed = f"{duration(now - self._begun)} elapsed"
        return f"{which}, {elapsed}, {left} in all" if left else f"{which}, {elapsed} in all"

    def _left_of_all(self, run: _Run, ahead: Sequence[Planned], now: float) -> Left | None:
        """Estimate the time left of this run and the runs ahead, from runs of their row, else from all runs so far."""
        left = run.left(now)
        for planned in ahead:
            own = self._paces.get(planned.row)
            one = (own.left(planned.rounds, 0) if own else None) or self._all.left(planned.rounds, 0)
            left = left + one if left and one else None
        return left

    def _draw(self, bar: Progress, run: _Run, text: str) -> None:
        label = run.planned.label
        if len(self._plan) > 1 and "" not in self._tasks:
            total = sum(planned.rounds.rounds for planned in self._plan.values())
            self._tasks[""] = bar.add_task("all runs", total=total, accuracy="", times="")
        if label not in self._tasks:
            bars = [task for name, task in self._tasks.items() if name]
            for old in bars[: max(0, len(bars) - SHOWN + 1)]:
                bar.update(old, visible=False)
            shown = sayable(escaped(label), bar.console.encoding)
            self._tasks[label] = bar.add_task(shown, total=run.planned.rounds.rounds, accuracy="", times="")
        bar.update(self._tasks[label], completed=run.done, accuracy=text, times=lambda: self._times(run, self._clock()))
        if "" in self._tasks and label in self._plan:
            place = list(self._plan).index(label)
            before = sum(planned.rounds.rounds for planned in list(self._plan.values())[:place])
            bar.update(self._tasks[""], completed=before + run.done, times=lambda: self._whole(run, self._clock()))


class Times(ProgressColumn):
    """A column that shows a task's field `times`, which is a text or a function that returns the current one."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """Return the current text."""
        times = task.fields["times"]
        return Text(times() if callable(times) else times, no_wrap=True, overflow="ellipsis")


class Bars(Progress):
    """Progress bars with messages on separate lines below them."""

    def __init__(self, *columns: str | ProgressColumn, console: Console) -> None:
        self._messages: list[str] = []
        super().__init__(*columns, console=console)

    def tell(self, text: str) -> None:
        """Add a message, shown from the next refresh on. Nothing is written now, as a write may be interrupted."""
        self._messages.append(text)

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bars, then the messages."""
        yield from super().get_renderables()
        yield from (Text(text) for text in list(self._messages))


@contextmanager
def _log_shown() -> Iterator[None]:
    """Show airfl's log on standard error during the block, unless the calling script has configured its logging."""
    log = logging.getLogger("airfl")
    handler, level = logging.StreamHandler(), log.level
    handler.setFormatter(PlainFormatter("%(message)s"))
    shown = [] if log.handlers else [handler]
    log.setLevel(logging.INFO)
    for one in shown:
        log.addHandler(one)
    try:
        yield
    finally:
        log.setLevel(level)
        for one in shown:
            log.removeHandler(one)


@contextmanager
def round_progress(
    plan: Sequence[Planned] = (), console: Console | None = None, clock: Clock = time.monotonic
) -> Iterator[RoundProgress]:
    """Show progress during the block, in the output of a cell in a notebook and else on standard error, where airfl's
    log is shown too. plan: all runs in order."""
    console = console or Console(stderr=True)
    with _log_shown():
        if console.is_jupyter:
            yield RoundProgress(NotebookBars(clock), plan, clock)
            return
        if not console.is_terminal:  # a file or a pipe
            yield RoundProgress(None, plan, clock)
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[accuracy]}", markup=False),
            Times(),
        )
        with Bars(*columns, console=console) as bar, told_by(bar.tell):
            yield RoundProgress(bar, plan, clock)


def planned(label: str, settings: Settings, row: str = "") -> Planned:
    """Return the planned run of some settings."""
    return Planned(label, row or label, RunLength(settings.run.rounds, settings.run.evaluate_every))


Told = TypeVar("Told")


@contextmanager
def asked_progress(
    asked: Told | bool | None, shown: Callable[[RoundProgress], Told], plan: Sequence[Planned]
) -> Iterator[Told | None]:
    """Yield the progress function for an argument `progress`.

    Args:
        asked: A function of the user's, which is yielded unchanged; True for the display of this module; False or None
            for no progress.
        shown: Returns the progress function of the display.
        plan: All runs in order.
    """
    if asked is True:
        with round_progress(plan) as progress:
            yield shown(progress)
    else:
        yield None if isinstance(asked, bool) else asked
