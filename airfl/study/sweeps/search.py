"""Tuning by trials: Optuna proposes the values. Needs `pip install "airfl[optuna]"`.

As many trials run at a time as there are processes or workers, each with one seed after another. When no more trials
are wanted, further seeds take the places that are left. With one place, the same seed proposes the same values.

A trial that may be pruned reports its first seed alone, after every evaluation: all trials have the same first seed,
so that equal rounds of equal devices, fades and noise are compared. Its other seeds begin when the first has ended.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airfl.analysis.results.averages import average
from airfl.analysis.results.digest import Digest
from airfl.analysis.results.tuned import ACCURACY, Chosen, Figure, TunedRow
from airfl.config import Config, Overrides
from airfl.config.swept_values import Interval
from airfl.errors import MachineError, UserError
from airfl.runtime.text import tell
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.trials.plan import SearchPlan
from airfl.study.sweeps.trials.studies import Studies
from airfl.study.sweeps.trials.study import Asked, RowStudy, Tried
from airfl.study.sweeps.tuning import edges_of, points_of

SECONDS_BETWEEN_LOOKS = 5.0
"""Time between two looks at what other clients do, while this one has nothing to begin."""
SECONDS_BEFORE_A_LINE = 10.0
SECONDS_BETWEEN_LINES = 60.0


@dataclass(eq=False)
class _Trial:
    """A trial that has begun.

    Attributes:
        row: Label of its row.
        asked: The trial in the study.
        points: Its points, one per seed.
        waiting: Those that have not begun.
        running: The folders of those that run.
        ended: Folder of a point that has ended -> validation and test figure.
        twins: Trials of the same values, which end as this one does.
    """

    row: str
    asked: Asked
    points: list[SweepPoint]
    waiting: list[SweepPoint]
    running: set[str] = field(default_factory=set)
    ended: dict[str, tuple[float, float]] = field(default_factory=dict)
    twins: list[_Trial] = field(default_factory=list)

    @property
    def first(self) -> str:
        """The folder of the point with the first seed."""
        return self.points[0].folder


class Search:
    """Which points a search begins next, from what has become of those before. It runs nothing itself."""

    def __init__(
        self,
        studies: Studies,
        points: Callable[[str, Mapping[str, Any]], list[SweepPoint]],
        plan: SearchPlan,
        seeds: int,
        by: Figure = ACCURACY,
    ) -> None:
        """Begin or go on with a search.

        Args:
            studies: The studies of the rows.
            points: (label of a row, values by dotted key) -> the points of a trial, one per seed.
            plan: The plan of the search.
            seeds: Number of seeds per trial.
            by: The metric.
        """
        self._studies, self._points, self._plan, self._by = studies.rows, points, plan, by
        self._seeds = seeds
        self._open: list[_Trial] = []
        self._running: dict[str, _Trial] = {}
        self._unwanted: set[str] = set()
        self._begun = dict.fromkeys(self._studies, 0)
        self._told_failures: list[tuple[str, str]] = []
        self._looked, self._full = -math.inf, False
        self._idle_since: float | None = None
        self._next_line = SECONDS_BEFORE_A_LINE
        for label, study in self._studies.items():
            for asked in study.begin():
                self._start(label, asked)

    # What runs

    def next(self, at_once: int) -> SweepPoint | None:
        """Return the next point to begin, None if there is none now. at_once: number of points that run at a time."""
        if len(self._running) >= at_once:
            return None
        idle = [trial for trial in self._open if not trial.running]
        point = self._point_of(idle)
        if point is None and len(self._open) < at_once:
            point = self._point_of_a_new_trial()
        if point is None:
            point = self._point_of(self._open)
        return point

    def reported(self, name: str, values: Mapping[int, float]) -> None:
        """Take figures of a running point by number of finished rounds, and prune its trial if they are bad."""
        trial = self._running.get(name)
        if trial is None or trial not in self._open or name != trial.first:
            return
        study = self._studies[trial.row]
        for rounds in sorted(values):
            if study.report(trial.asked, rounds, values[rounds]):
                study.prune(trial.asked)
                break
        if trial.asked.taken:  # pruned, or given up by another client
            self._close(trial)

    def finished(self, name: str, digest: Digest) -> None:
        """Take the result of a point that has run to its end."""
        trial = self._running.pop(name)
        trial.running.discard(name)
        self._unwanted.discard(name)
        if trial not in self._open:
            return
        figures = digest.course[f"validation_{self._by.name}"]
        if name == trial.first and self._plan.prunes:
            rounds = digest.course["rounds"]
            # Reports may come later than the end of a short run. What is pruned does not depend on that.
            self._running[name] = trial
            self.reported(name, {int(at): float(value) for at, value in zip(rounds[:-1], figures[:-1], strict=True)})
            del self._running[name]
            if trial not in self._open:
                return
        score, test = float(figures[-1]), float(getattr(digest.summary, f"test_{self._by.name}"))
        trial.ended[name] = (score, test)
        if math.isnan(score):
            self._fail(trial, f"its validation {self._by.name} is not a number")
        elif len(trial.ended) == len(trial.points):
            validation, tests = zip(*(trial.ended[point.folder] for point in trial.points), strict=True)
            mean = average(validation, self._by.bounds).mean
            self._studies[trial.row].complete(trial.asked, mean, validation, tests)
            self._close(trial)

    def failed(self, name: str, cause: str) -> None:
        """Take the error of a point that has failed, which its trial does too."""
        trial = self._running.pop(name)
        trial.running.discard(name)
        self._unwanted.discard(name)
        if trial in self._open:
            self._fail(trial, cause)

    def stopped(self, name: str) -> None:
        """Take note that a point was stopped since it was no longer wanted."""
        if name in self._running and self._running[name] in self._open:
            self.failed(name, "it was stopped by its worker")
        elif (trial := self._running.pop(name, None)) is not None:
            trial.running.discard(name)
        self._unwanted.discard(name)

    def unwanted(self) -> Collection[str]:
        """Return the running points that are no longer wanted."""
        return self._unwanted

    @property
    def over(self) -> bool:
        """Whether all trials have ended, also those of other clients."""
        if self._open or self._running:
            return False
        self._look()
        counts = [study.left() for study in self._studies.values()]
        others = sum(running for _, running in counts)
        if others:
            self._wait_for(others)
        return not any(map(sum, counts))

    def chosen(self, rows: Sequence[TunedRow], axes: Mapping[str, Sequence[Any] | Interval]) -> list[Chosen]:
        """Return the result for each row; MachineError if all trials of one have failed."""
        return [self._chosen(row, self._studies[row.label], axes) for row in rows]

    def _chosen(self, row: TunedRow, study: RowStudy, axes: Mapping[str, Sequence[Any] | Interval]) -> Chosen:
        best = study.best()
        if best is None:
            raise MachineError(f"{row.label or 'tuning'}: all points have failed; `airfl results DIR` shows the errors")
        distinct: list[Tried] = []
        for one in study.tried():
            if not any(one.values == other.values for other in distinct):
                distinct.append(one)
        validation, test = (average(one, self._by.bounds) for one in (best.validation, best.test))
        pruned = sum(one.pruned for one in distinct)
        edges = edges_of(best.values, axes)
        return Chosen(row, best.values, validation, test, len(distinct), edges, self._by, pruned)

    # What is shown and kept

    @property
    def begun(self) -> set[str]:
        """The folders of the points of trials that have not ended."""
        return {point.folder for trial in self._open for point in trial.points}

    @property
    def points_left(self) -> int:
        """Number of points that have not ended, if no trial is pruned and other clients begin no more."""
        open_points = sum(len(trial.points) - len(trial.ended) for trial in self._open) + len(self._unwanted)
        return open_points + self._seeds * sum(study.left()[0] for study in self._studies.values())

    @property
    def points_ended(self) -> int:
        """Number of points of the trials of all clients that have ended."""
        return self._seeds * sum(study.ended() for study in self._studies.values())

    def taken_failures(self) -> list[tuple[str, str]]:
        """Return names and errors of trials that have failed before any point of theirs began, once."""
        failures, self._told_failures = self._told_failures, []
        return failures

    # Trials

    def _point_of(self, trials: Sequence[_Trial]) -> SweepPoint | None:
        """Return a point of these trials that can begin, the first."""
        for trial in trials:
            may_begin = trial.waiting
            if self._plan.prunes and trial.first not in trial.ended:
                may_begin = [point for point in trial.waiting if point.folder == trial.first]
            for point in may_begin:
                if point.folder not in self._running:
                    trial.waiting.remove(point)
                    trial.running.add(point.folder)
                    self._running[point.folder] = trial
                    return point
        return None

    def _point_of_a_new_trial(self) -> SweepPoint | None:
        now = time.monotonic()
        if self._full and now - self._looked < SECONDS_BETWEEN_LOOKS:
            return None
        self._look()
        for label in sorted(self._studies, key=lambda label: self._begun[label]):
            while (asked := self._studies[label].ask()) is not None:
                self._full, self._idle_since, self._next_line = False, None, SECONDS_BEFORE_A_LINE
                self._begun[label] += 1
                trial = self._start(label, asked)
                if trial is not None and (point := self._point_of([trial])) is not None:
                    return point
        self._full = True
        return None

    def _start(self, label: str, asked: Asked) -> _Trial | None:
        """Open a trial; None if what becomes of it is known already, or it has failed."""
        study = self._studies[label]
        known = study.known(asked.values)
        if known is not None:
            self._end_like(study, asked, known)
            return None
        try:
            points = self._points(label, asked.values)
        except UserError as error:
            study.fail(asked, str(error))
            self._told_failures.append((f"{label or 'trial'} {asked.number}", str(error)))
            return None
        trial = _Trial(label, asked, points, list(points))
        twin = next((one for one in self._open if one.row == label and one.asked.values == asked.values), None)
        if twin is not None:
            twin.twins.append(trial)
            return None
        self._open.append(trial)
        return trial

    @staticmethod
    def _end_like(study: RowStudy, asked: Asked, known: Tried) -> None:
        if known.pruned:
            study.prune(asked)
        else:
            study.complete(asked, known.score, known.validation, known.test)

    def _fail(self, trial: _Trial, cause: str) -> None:
        self._studies[trial.row].fail(trial.asked, cause)
        for twin in trial.twins:
            self._studies[trial.row].fail(twin.asked, cause)
        self._close(trial)

    def _close(self, trial: _Trial) -> None:
        """Close a trial that has ended, and stop its points."""
        self._open.remove(trial)
        trial.waiting.clear()
        self._unwanted |= trial.running
        study = self._studies[trial.row]
        known = study.known(trial.asked.values) if trial.twins else None
        for twin in trial.twins:
            if known is not None:
                self._end_like(study, twin.asked, known)
            elif not twin.asked.taken:  # another client has taken over the one that ran
                self._start(trial.row, twin.asked)

    # Other clients

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < SECONDS_BETWEEN_LOOKS:
            return
        self._looked = now
        taken = sum(study.take_over() for study in self._studies.values())
        if taken:
            trials = "a trial" if taken == 1 else f"{taken} trials"
            tell(f"--storage: {trials} of clients that were lost begin again")

    def _wait_for(self, others: int) -> None:
        now = time.monotonic()
        self._idle_since = now if self._idle_since is None else self._idle_since
        if now - self._idle_since >= self._next_line:
            self._next_line = now - self._idle_since + SECONDS_BETWEEN_LINES
            trials = "a trial" if others == 1 else f"{others} trials"
            tell(f"--storage: waiting for {trials} of other clients; Ctrl-C ends this one")


def points_of_trials(
    config: Config, overrides: Overrides, rows: Sequence[TunedRow], seeds: int
) -> Callable[[str, Mapping[str, Any]], list[SweepPoint]]:
    """Return a function (label of a row, values by dotted key) -> the points of a trial, one per seed."""
    by_label = {row.label: row for row in rows}
    return lambda label, values: points_of(config, overrides, [by_label[label]], {label: [values]}, seeds)
