"""What is in a folder that is watched: one run, or the points of a sweep, a comparison or a folder of runs."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfl.analysis.results.digest import digest_of
from airfl.analysis.results.find import read_rows, without_runs
from airfl.analysis.results.result import plain
from airfl.analysis.results.sweep_folder import RUNNING_NAME, read_listing
from airfl.core.checkpoint import ABOUT_NAME
from airfl.errors import UserError
from airfl.report.live.follow import COMPLETE, ENDED, FAILED, INTERRUPTED, RUNNING, UNREADABLE, WAITING, Follower
from airfl.runtime.time_left import duration
from airfl.storage.output_files import CHECKPOINT_NAME, LOCK_NAME, OF_A_RUN, ROWS_NAME, SWEEP_NAME, TRACE_NAME
from airfl.storage.trace import open_trace

RUN, SWEEP, COMPARISON, RUNS, NOTHING = "run", "sweep", "comparison", "runs", "nothing"
SECONDS_BETWEEN_LOOKS = 0.5
MOST_CURVES = 12
"""Number of points whose rounds are given in one answer."""
MOST_AT_ONCE_S = 1.0
"""Time for the reading of runs after which a look at a sweep ends; the next one reads the points that are left."""
UNREAD = "not read yet"
"""State of a point that was left to the next look."""
STATES = (RUNNING, INTERRUPTED, WAITING, COMPLETE, FAILED, UNREADABLE, UNREAD)


@dataclass(frozen=True)
class Point:
    """A run among those of a folder.

    Attributes:
        name: Its name, unique in the folder; "" for the run of a folder that holds a single one.
        label: What it is called on the page.
        folders: Where its files may be, in the order in which they are looked for.
        failure: Why it failed; "" unless the sweep says so.
    """

    name: str
    label: str
    folders: tuple[Path, ...]
    failure: str = ""

    @property
    def folder(self) -> Path:
        """The first of its folders that holds a run, else the last one."""
        return next((one for one in self.folders if _holds_run(one)), self.folders[-1])


@dataclass(frozen=True)
class Request:
    """A point whose rounds are wanted.

    Attributes:
        name: Name of the point.
        generation: Generation of its records that was received last.
        rounds: Number of rounds already received.
    """

    name: str
    generation: int = 0
    rounds: int = 0


class Watched:
    """A folder that is watched. It need not exist yet.

    Args:
        folder: The folder of a run, a sweep, a comparison, or of runs.

    Raises:
        UserError: If it is no folder, or holds other files and no run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._points: list[Point] = []
        self._followers: dict[str, Follower] = {}
        self._finished: dict[str, dict[str, Any]] = {}
        self._table: dict[str, Any] = {}
        self._looked = -math.inf
        self._spent_s = 0.0  # time spent on reading runs in the present look
        check_watchable(folder)

    def data(self, wanted: Sequence[Request] = ()) -> dict[str, Any]:
        """Return what is in the folder now, and the rounds of some points, as plain data.

        Args:
            wanted: The points whose rounds are wanted. Names of points that do not exist are ignored.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._looked >= SECONDS_BETWEEN_LOOKS:
                self._table = self._look()
                self._looked = time.monotonic()
            runs = {}
            known = {point.name: point for point in self._points}
            for one in wanted[:MOST_CURVES]:
                if one.name in known:
                    follower = self._follow(known[one.name])
                    again = follower.generation != one.generation or one.rounds > follower.done
                    runs[one.name] = follower.series(0 if again else one.rounds)
            return {**self._table, "runs": runs}

    def _look(self) -> dict[str, Any]:
        try:
            kind, self._points = points_in(self.folder)
        except UserError as error:
            self._points = []
            return {"folder": str(self.folder), "kind": NOTHING, "ended": False, "line": str(error), "points": []}
        self._spent_s = 0.0
        rows = [self._row(point) for point in self._points]
        ended = bool(rows) and all(row["state"] in ENDED for row in rows)
        return {
            "folder": str(self.folder),
            "kind": kind,
            "ended": ended,
            "line": self._line(kind, rows),
            "points": rows,
        }

    def _row(self, point: Point) -> dict[str, Any]:
        """Return the line of a point in the table. Finished points are read once, and only if there is time."""
        in_time = self._spent_s <= MOST_AT_ONCE_S
        row: dict[str, Any] = {"name": point.name, "label": point.label, "left": "", "note": point.failure}
        empty = {"scheme": "", "done": 0, "rounds": 0, "accuracy": math.nan}
        if point.failure:
            return {**row, **empty, "state": FAILED}
        folder = point.folder
        finished = (folder / TRACE_NAME).exists() and not (folder / CHECKPOINT_NAME / ABOUT_NAME).exists()
        if finished and point.name:
            if point.name not in self._finished and in_time:
                began = time.monotonic()
                self._finished[point.name] = _finished_row(folder)
                self._spent_s += time.monotonic() - began
            return {**row, **empty, "state": UNREAD, **self._finished.get(point.name, {})}
        self._finished.pop(point.name, None)
        if not in_time and point.name not in self._followers:
            return {**row, **empty, "state": UNREAD}
        began = time.monotonic()
        follower = self._follow(point)
        self._spent_s += time.monotonic() - began
        left = follower.seconds_left()
        return {
            **row,
            "scheme": follower.scheme,
            "state": follower.state,
            "note": follower.note,
            "done": follower.done,
            "rounds": follower.rounds,
            "accuracy": follower.accuracy,
            "left": "" if math.isnan(left) else f"about {duration(left)} left",
        }

    def _follow(self, point: Point) -> Follower:
        follower = self._followers.get(point.name)
        if follower is None:
            follower = self._followers[point.name] = Follower(point.folder)
        follower.folder = point.folder
        follower.look()
        return follower

    def _line(self, kind: str, rows: Sequence[Mapping[str, Any]]) -> str:
        """Return a line on the whole folder."""
        if kind == NOTHING:
            return f"Waiting for {self.folder}, which " + (
                "holds no run yet." if self.folder.exists() else "does not exist yet."
            )
        if kind == RUN:
            (row,) = rows
            rounds = f"round {row['done']} of {row['rounds']}"
            said = {
                WAITING: "The run has not begun yet.",
                RUNNING: f"Running: {rounds}" + (f", {row['left']}." if row["left"] else "."),
                INTERRUPTED: f"Interrupted after {rounds}.",
                COMPLETE: f"The run has ended: {rounds}.",
                FAILED: f"The run has failed: {rounds}.",
                UNREADABLE: "The run cannot be read.",
            }[row["state"]]
            return f"{said} {_sentence(row['note'])}".strip()
        counts = Counter(row["state"] for row in rows)
        listed = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        left = self._seconds_left(rows)
        more = "" if math.isnan(left) else f"; about {duration(left)} left"
        over = "Ended: " if rows and all(row["state"] in ENDED for row in rows) else ""
        return f"{over}{len(rows)} runs: {listed}{more}."

    def _seconds_left(self, rows: Sequence[Mapping[str, Any]]) -> float:
        """Estimate the time left of all runs in s: the rounds that are left, at the pace of those that run; nan while
        there is none. Runs that have not begun are taken to be as long as the longest that run."""
        running = [
            self._followers[row["name"]] for row in rows if row["state"] == RUNNING and row["name"] in self._followers
        ]
        paces = [one.seconds_a_round for one in running]
        if not paces or not all(pace < math.inf for pace in paces):
            return math.nan
        longest = max(one.rounds for one in running)
        waiting: int = longest * sum(row["state"] == WAITING for row in rows)
        rounds = waiting + sum(one.rounds - one.done for one in running)
        together = rounds * sum(paces) / len(paces) / len(paces)
        return max(together, max(one.seconds_left() for one in running))


def check_watchable(folder: Path) -> None:
    """Raise UserError unless the folder is missing, empty, or holds runs, a sweep or a comparison."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: not a folder; give the folder of a run, a sweep or a comparison")
    try:
        kind, _ = points_in(folder)
        others = folder.is_dir() and any(file.name not in (LOCK_NAME, *OF_A_RUN) for file in folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror})") from None
    if kind == NOTHING and others:
        raise UserError(without_runs(folder))


def points_in(folder: Path) -> tuple[str, list[Point]]:
    """Return what a folder holds, and its runs; UserError for a damaged list of points or rows."""
    if (folder / SWEEP_NAME).exists():
        listing = read_listing(folder)
        return SWEEP, [
            Point(
                entry.folder,
                _label(entry.label, entry.values, entry.seed),
                (folder / entry.folder, folder / RUNNING_NAME / entry.folder),
                "" if listing.finished(entry) else listing.failed.get(entry.folder, ""),
            )
            for entry in listing.entries
        ]
    if (folder / ROWS_NAME).exists():
        points = []
        for label, row in read_rows(folder / ROWS_NAME):
            seeds = _run_folders(row)
            points += [Point(f"{row.name}/{one.name}", f"{label}, {one.name}", (one,)) for one in seeds]
            if not seeds:
                points.append(Point(row.name, label, (row,)))
        return COMPARISON, points
    if _holds_run(folder):
        return RUN, [Point("", folder.name, (folder,))]
    if folder.is_dir() and (runs := _run_folders(folder)):
        return RUNS, [Point(one.name, one.name, (one,)) for one in runs]
    return NOTHING, []


def _run_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder that hold runs, with seed-2 before seed-10."""
    if not folder.is_dir():
        return []
    runs = [one for one in folder.iterdir() if _holds_run(one)]
    return sorted(runs, key=lambda one: (len(one.name), one.name))


def _holds_run(folder: Path) -> bool:
    return (folder / TRACE_NAME).exists() or (folder / CHECKPOINT_NAME).is_dir()


def _label(label: str, values: Mapping[str, Any], seed: int) -> str:
    swept = [f"{key} = {plain(value)}" for key, value in values.items() if key != "run.seed"]
    return ", ".join([*filter(None, [label]), *swept, f"seed {seed}"])


def _finished_row(folder: Path) -> dict[str, Any]:
    try:
        digest = digest_of(folder)
        summary, asked = digest.summary, digest.setting("run.rounds")
        note = _failure(folder) if summary.status == "failed" else summary.stopped_early
    except UserError as error:
        return {"state": UNREADABLE, "note": str(error)}
    state = {"complete": COMPLETE, "failed": FAILED}.get(summary.status, INTERRUPTED)
    return {
        "state": state,
        "note": note,
        "scheme": summary.scheme,
        "done": summary.rounds,
        "rounds": asked if isinstance(asked, int) else summary.rounds,
        "accuracy": summary.test_accuracy,
    }


def _failure(folder: Path) -> str:
    """Return why the run in this folder has failed."""
    with open_trace(folder) as trace:
        return str(trace.attrs.get("failure", ""))


def _sentence(text: str) -> str:
    return text if not text or text.endswith(".") else f"{text}."


def as_json(value: Any) -> str:
    """Serialise plain data as JSON: nan becomes null, and infinity the text "inf"."""
    return json.dumps(_without_special_numbers(value), allow_nan=False, separators=(",", ":"))


def _without_special_numbers(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {key: _without_special_numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_special_numbers(one) for one in value]
    return value
