"""Runs the points that a search gives out one after another, each in its own run folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from airfl.analysis.results.digest import Digest, digest_of
from airfl.analysis.results.sweep_folder import (
    RUNNING_NAME,
    TUNE,
    Listing,
    check_same_data,
    exclusive,
    open_folder,
    write_listing,
)
from airfl.errors import UserError
from airfl.storage.output_files import SWEEP_NAME
from airfl.study.sweeps.attempt import clear_attempts
from airfl.study.sweeps.job import Job, Outcome
from airfl.study.sweeps.local import check_guard
from airfl.study.sweeps.place import Place, check_points
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.settling import settled
from airfl.study.sweeps.status import Report, Status
from airfl.study.sweeps.trials.client import CLIENT_NAME
from airfl.study.sweeps.trials.storage import JOURNAL_NAME
from airfl.study.sweeps.workplace import Workplace, job_of, workplace


class Searched(Protocol):
    """What decides which points run next. See `airfl.study.sweeps.search.Search`."""

    def next(self, at_once: int) -> SweepPoint | None: ...

    def reported(self, name: str, values: Mapping[int, float]) -> None: ...

    def finished(self, name: str, digest: Digest) -> None: ...

    def failed(self, name: str, cause: str) -> None: ...

    def stopped(self, name: str) -> None: ...

    def unwanted(self) -> Collection[str]: ...

    def taken_failures(self) -> list[tuple[str, str]]: ...

    @property
    def over(self) -> bool: ...

    @property
    def begun(self) -> set[str]: ...

    @property
    def points_left(self) -> int: ...

    @property
    def points_ended(self) -> int: ...


Search = TypeVar("Search", bound=Searched)


def run_search(
    begin: Callable[[Path], AbstractContextManager[Search]],
    firsts: Sequence[SweepPoint],
    out: Path,
    where: Place,
    report: Report | None = None,
    reports: str = "",
) -> Search:
    """Run the points that a search gives out, until it is over, and return it.

    Args:
        begin: Begins the search with the folder `out`, which is locked for this process.
        firsts: Some of its points, to check before anything runs.
        out: A new folder, or that of a search to resume.
        where: Where points run.
        report: Called with the status at the beginning and after every point.
        reports: The variable of traces that points report after evaluations; "" for none.
    """
    if where.cluster is None:
        check_guard()
    check_points(firsts, out, where, TUNE)
    with workplace(firsts, where) as at, exclusive(out):
        new = not (out / SWEEP_NAME).exists()
        before = open_folder(out, TUNE)
        check_same_data(before, at.data.checksums(*firsts))
        listing = replace(before, root=out, command=TUNE)
        write_listing(listing)
        running = out / RUNNING_NAME
        try:
            with begin(out) as search:
                fed = _Fed(search, listing, where, at, report or (lambda status: None), reports)
                clear_attempts(running, search.begun)
                try:
                    # Closed before the lock is released, so that no process is still running a point by then.
                    with closing(at.work([], running, fed)) as outcomes:
                        for outcome in outcomes:
                            fed.ended(outcome)
                    fed.tell()
                    return search
                finally:
                    clear_attempts(running, search.begun)
        except UserError:  # the studies are of something else, or the processes cannot import the calling script
            if new and not open_folder(out, TUNE).entries:
                (out / SWEEP_NAME).unlink()
                for name in (JOURNAL_NAME, CLIENT_NAME):
                    (out / name).unlink(missing_ok=True)
            raise


class _Fed:
    """The points of a search as jobs, and their folder."""

    def __init__(
        self, search: Searched, listing: Listing, where: Place, at: Workplace, report: Report, reports: str
    ) -> None:
        self._search, self._listing, self._where, self._at = search, listing, where, at
        self._report, self._reports = report, reports
        self._points: dict[str, SweepPoint] = {}
        self._shown: Status | None = None
        self._status = Status(0, before=search.points_ended, at_once=at.at_once)
        self.tell()

    def tell(self) -> None:
        """Show the status, unless it is as it was shown last."""
        self._status = replace(self._status, points=self._status.ended + self._search.points_left)
        if self._status != self._shown:
            self._shown = self._status
            self._report(self._status)

    def more(self, at_once: int) -> list[Job]:
        """Return the jobs to begin now."""
        jobs = []
        while (point := self._search.next(at_once)) is not None:
            self._points[point.folder] = point
            self._listing = self._listing.joined([point.entry()])
            write_listing(self._listing)
            if self._listing.finished(point.entry()):
                self._finished(point)
                continue
            try:
                self._at.data.load([point])
                jobs.append(job_of(point, self._where, self._at.data, self._reports))
            except UserError as error:  # these values do not fit the data
                self.ended(Outcome(point.folder, str(error)))
        for name, cause in self._search.taken_failures():
            self._status = self._status.after(name, cause)
            self.tell()
        self._status = replace(self._status, at_once=max(1, at_once))
        return jobs

    def reported(self, name: str, values: Mapping[int, float]) -> None:
        """Take figures of a running point."""
        self._search.reported(name, values)

    def unwanted(self) -> Collection[str]:
        """Return the running points that are no longer wanted."""
        return self._search.unwanted()

    @property
    def over(self) -> bool:
        """Whether there will be no more points."""
        return self._search.over

    def ended(self, outcome: Outcome) -> None:
        """Take the outcome of a point."""
        point = self._points[outcome.name]
        if outcome.unwanted:
            self._search.stopped(outcome.name)
            status = self._status
            self._status = replace(status, pruned=status.pruned + 1, last=point.name, cause=None, seconds=math.nan)
        else:
            self._listing = settled(self._listing, point, outcome, self._at.data.request_of)
            self._status = self._status.after(point.name, outcome.cause, outcome.seconds, outcome.retried)
            if outcome.cause is None:
                self._finished(point, counts=False)
            else:
                self._search.failed(outcome.name, outcome.cause)
        self.tell()

    def _finished(self, point: SweepPoint, counts: bool = True) -> None:
        """Tell the search of a finished point. counts: whether it was finished before."""
        self._search.finished(point.folder, digest_of(self._listing.root / point.folder))
        if counts:
            self._status = replace(self._status, before=self._status.before + 1)
            self.tell()
