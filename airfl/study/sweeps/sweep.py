"""Runs a sweep: every point once, each in its own run folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airfl.analysis.results.collect import read_results
from airfl.analysis.results.digest import Digest, digest_of
from airfl.analysis.results.result import Results
from airfl.analysis.results.sweep_folder import (
    RUNNING_NAME,
    SWEEP,
    TUNE,
    Listing,
    code_of,
    exclusive,
    open_folder,
    place,
    write_listing,
)
from airfl.config import Config, Overrides
from airfl.config.arguments import public
from airfl.config.task import OWN
from airfl.core.device import find_device
from airfl.errors import UserError
from airfl.learning.chosen_task import load_data
from airfl.learning.tasks.datasets import data_folders
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.streams import Streams
from airfl.storage.output_files import SWEEP_NAME
from airfl.study.attempts import take_over
from airfl.study.shards import Shard
from airfl.study.sweeps.attempt import clear_attempts
from airfl.study.sweeps.cluster.client import Cluster
from airfl.study.sweeps.cluster.received import put
from airfl.study.sweeps.cluster.shared import folder_of_sweep
from airfl.study.sweeps.feed import Feed
from airfl.study.sweeps.gpus import processes_for
from airfl.study.sweeps.job import Job, Outcome, packed_task, settings_of_a_point
from airfl.study.sweeps.local import check_guard, run_jobs
from airfl.study.sweeps.place import Place, check_points, place_of
from airfl.study.sweeps.points import SweepPlan, SweepPoint, build_points
from airfl.study.sweeps.progress import asked_progress
from airfl.study.sweeps.sharded import run_shared
from airfl.study.sweeps.status import Report, Status
from airfl.study.sweeps.trials.client import CLIENT_NAME
from airfl.study.sweeps.trials.storage import JOURNAL_NAME
from airfl.version import __version__

if TYPE_CHECKING:
    from airfl.learning.own_task import Task


@public
def sweep(
    config: Config,
    axes: Mapping[str, Sequence[Any]] | None = None,
    *,
    out: str | Path,
    seeds: int = 1,
    overrides: Overrides = (),
    zipped: Sequence[Sequence[str]] = (),
    points: Sequence[Mapping[str, Any]] | None = None,
    rows: bool | Mapping[str, Overrides] = False,
    jobs: int = 1,
    cluster: str | None = None,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    shared_dir: str | Path | None = None,
    retries: int = 3,
    worker_wait_s: float = 3600.0,
    scheduler_wait_s: float = 300.0,
    progress: Report | bool | None = None,
    report: Report | None = None,
    plugins: bool = False,
    task: Task | None = None,
    shard: str | Shard | None = None,
) -> Results:
    """Run every point that is not yet finished in `out`, and return the results of all points in it.

    Results do not depend on where points run. A point that fails does not stop the others; see `Results.failed`. A
    script that calls this needs `if __name__ == "__main__":` for its processes. Callbacks are not supported, because
    processes cannot share them.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables; see
            `airfl.load_settings`.
        axes: Dotted key -> values; every value is combined with every value of the other keys,
            `{"scheme.ratio": [0.1, 0.3]}`.
        out: A new folder, or that of a sweep to resume.
        seeds: Number of seeds per point, counted up from run.seed.
        overrides: As in `airfl.load_settings`, for all points.
        zipped: Groups of keys of `axes` whose values are paired instead.
        points: Explicit points, each a mapping of settings by dotted key; combined with `axes` if both are given.
        rows: True to combine every point with every [[compare]] row of the file; or rows, label -> overrides.
        jobs: Number of points that run at a time, in processes on this machine; 0 for one a core, or for as many as
            the memory that the first point takes of a GPU allows.
        cluster: The address of a Dask scheduler, whose workers run the points instead.
        device: "cpu", "cuda", or "cuda:1" for that GPU alone. With "cuda", the processes are spread over all visible
            GPUs, and every worker of a cluster has one.
        data_dir: As in `airfl.run`.
        shared_dir: With `cluster`, a folder that is at the same path on all workers, for the checkpoints of points.
            Without it, a point whose worker is killed begins again; one whose worker is asked to stop (SIGTERM) sends
            its checkpoint back.
        retries: How often a point is run again after its process or worker was lost.
        worker_wait_s: With `cluster`, the longest wait for a worker in s: for the first one, and when all are lost.
        scheduler_wait_s: With `cluster`, the longest wait in s for a lost scheduler to come back.
        progress: True shows a progress bar on a terminal or in a notebook, else plain lines. A function is called
            with an `airfl.study.sweeps.status.Status` at the beginning and after every point.
        report: An older name of `progress`.
        plugins: As in `airfl.load_settings`.
        task: As in `airfl.run`. It is sent to the processes or workers.
        shard: "2/10" for the second of ten processes, also of several machines, that share the folder `out`: each
            claims one point after the other, and returns when every point is finished, has failed or is run by another
            process (see `Results.running`). Without it, the sweep has the folder for itself.

    Raises UserError for invalid input, before any point runs; MachineError if a scheduler or all workers are lost and
    do not come back.
    """
    plan = SweepPlan(axes or {}, zipped, points if points is not None else ({},), rows, seeds)
    where = place_of(jobs, cluster, device, data_dir, shared_dir, retries, worker_wait_s, scheduler_wait_s, shard)
    built = build_points(config, overrides, plan, plugins=plugins, task=task)
    with asked_progress(report if progress is None else progress) as shown:
        return run_points(built, Path(out), where, shown)


def run_points(
    points: Sequence[SweepPoint], out: Path, where: Place, report: Report | None = None, command: str = SWEEP
) -> Results:
    """Run points as `sweep` does. command: sweep or tune, which cannot use the same folder."""
    if where.cluster is None:
        check_guard()
    check_points(points, out, where, command)
    tell = report or (lambda status: None)
    if where.shard is not None:
        with _workplace(points, where) as at:
            run_shared(
                points, out, where.shard, command, at.work, tell, at.at_once, _request, lambda one: _job(one, where)
            )
        return read_results(out)
    with _workplace(points, where) as at, exclusive(out):
        new = not (out / SWEEP_NAME).exists()
        listing = open_folder(out, command).joined([point.entry() for point in points])
        listing = replace(listing, root=out, command=command)
        write_listing(listing)
        waiting = {point.folder: point for point in points if not listing.finished(point.entry())}
        cut_off: set[str] = set()  # points whose checkpoints are kept for the next time
        status = Status(len(points), before=len(points) - len(waiting), at_once=at.at_once)
        tell(status)
        take_over(out, lambda name: out / RUNNING_NAME / name if name in waiting else None)
        clear_attempts(out / RUNNING_NAME, waiting)
        try:
            # Closed before the lock is released, so that no process is still running a point by then.
            with closing(at.work([_job(point, where) for point in waiting.values()], out / RUNNING_NAME)) as outcomes:
                for outcome in outcomes:
                    point = waiting.pop(outcome.name)
                    listing = _settled(listing, point, outcome)
                    cut_off |= {outcome.name} if outcome.again else set()
                    status = status.after(point.name, outcome.cause, outcome.seconds, outcome.retried)
                    tell(status)
        except UserError:  # the processes cannot import the calling script, so nothing has run
            if new and len(waiting) == status.points:
                (out / SWEEP_NAME).unlink()
            raise
        finally:
            clear_attempts(out / RUNNING_NAME, {*waiting, *cut_off})
    return read_results(out)


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
    with _workplace(firsts, where) as at, exclusive(out):
        new = not (out / SWEEP_NAME).exists()
        listing = replace(open_folder(out, TUNE), root=out, command=TUNE)
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
        self, search: Searched, listing: Listing, where: Place, at: _Workplace, report: Report, reports: str
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
                jobs.append(_job(point, self._where, self._reports))
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
            self._listing = _settled(self._listing, point, outcome)
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


def _settled(listing: Listing, point: SweepPoint, outcome: Outcome) -> Listing:
    """Move a finished run to its folder, or record the error of a failed one, and return the new listing."""
    failed = {name: cause for name, cause in listing.failed.items() if name != point.folder}
    if outcome.cause is None:
        place(listing.root, point.folder, _request(point))
    else:
        failed[point.folder] = outcome.cause
    if failed == listing.failed:
        return listing
    listing = replace(listing, failed=failed)
    write_listing(listing)
    return listing


class _Work(Protocol):
    """Runs jobs in a folder, each of which it asks for when it can begin, and those that a feed gives out meanwhile."""

    def __call__(
        self, jobs: Iterable[Job], running: Path, feed: Feed | None = None
    ) -> Generator[Outcome, None, None]: ...


@dataclass(frozen=True)
class _Workplace:
    """Where points run.

    Attributes:
        work: Runs jobs.
        at_once: Number of jobs that it runs at a time, at the beginning.
        data: Their data.
    """

    work: _Work
    at_once: int
    data: _Data


@contextmanager
def _workplace(points: Sequence[SweepPoint], where: Place) -> Iterator[_Workplace]:
    """Load the data, and yield what runs jobs.

    Raises UserError if a data set, a device or the cluster is missing.
    """
    task = next((point.task for point in points if point.task), None)
    sent = None if task is None else packed_task(task)
    data = _Data(where)
    if where.cluster is None:
        find_device(where.device)
        data.load(points)
        threads = max((point.settings.run.threads for point in points), default=0)
        processes = processes_for(where.jobs, where.device, threads)
        retries = where.patience.retries

        def here(jobs: Iterable[Job], running: Path, feed: Feed | None = None) -> Generator[Outcome, None, None]:
            return run_jobs(jobs, running, processes, sent, retries, feed)

        yield _Workplace(here, processes.first, data)
        return
    data.load(points)
    with closing(Cluster(where.cluster, where.device, where.patience)) as cluster:

        def far(jobs: Iterable[Job], running: Path, feed: Feed | None = None) -> Generator[Outcome, None, None]:
            shared = None if where.shared_dir is None else folder_of_sweep(where.shared_dir, running.parent)
            for outcome in cluster.run_jobs(jobs, running, data.to_send, sent, shared, feed):
                yield put(outcome, running)

        yield _Workplace(far, cluster.workers, data)


class _Data:
    """The data sets of points.

    Attributes:
        to_send: Those that the workers of a cluster need. A user-defined task is sent with its data.
    """

    def __init__(self, where: Place) -> None:
        self._folders = data_folders(where.data_dir)
        self._loaded: dict[str | Dataset, RawData] = {}
        self._checked: list[object] = []
        self.to_send: dict[str | Dataset, RawData] = {}

    def load(self, points: Sequence[SweepPoint]) -> None:
        """Load the data sets of points that are new, and check that they can be partitioned as the points require."""
        from airfl.learning.task import build_task

        for point in points:
            settings = point.settings
            name, partitioned = settings.task.dataset, (settings.task, settings.run.devices)
            if partitioned in self._checked:
                continue
            self._checked.append(partitioned)
            if name not in self._loaded:
                self._loaded[name] = load_data(settings.task, self._folders, point.task)
                if name != OWN:
                    self.to_send[name] = self._loaded[name]
            build_task(settings, self._loaded[name], Streams(settings.run.seed), point.task)


def _job(point: SweepPoint, where: Place, reports: str = "") -> Job:
    return Job(point.folder, settings_of_a_point(point.settings), where.data_dir, where.device, reports=reports)


def _request(point: SweepPoint) -> dict[str, Any]:
    return {
        "airfl_version": __version__,
        "label": point.label,
        "values": dict(point.values),
        "seed": point.settings.run.seed,
        "settings": point.settings.model_dump(),
        **({"task": point.task.fingerprint} if point.task else {}),
        **({"code": code} if (code := code_of(point.settings)) else {}),
    }
