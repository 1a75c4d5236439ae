"""A sweep: every point run once, wherever there is room, its run folder moved to its place when it is whole."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.config import Config, Overrides
from airfl.config.arguments import public
from airfl.config.task import OWN
from airfl.device import find_device
from airfl.errors import UserError
from airfl.output import SWEEP_NAME
from airfl.results.collect import Results, read_results
from airfl.streams import Streams
from airfl.sweeps.attempt import clear_attempts
from airfl.sweeps.cluster import Cluster, put
from airfl.sweeps.folder import RUNNING_NAME, SWEEP, Listing, alone, code_of, open_folder, place, write_listing
from airfl.sweeps.local import check_guard, run_jobs
from airfl.sweeps.place import Place, check_points
from airfl.sweeps.points import Plan, Point, build_points
from airfl.sweeps.progress import asked_progress
from airfl.sweeps.status import Report, Status
from airfl.sweeps.task import Job, Outcome, packed_task, settings_of_a_point
from airfl.tasks import load_data
from airfl.tasks.datasets import data_folders
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.raw import RawData
from airfl.version import __version__

if TYPE_CHECKING:
    from airfl.tasks.own import Task


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
    progress: Report | bool | None = None,
    report: Report | None = None,
    plugins: bool = False,
    task: Task | None = None,
) -> Results:
    """Run every point that is not finished in `out`, return the results of all that are there.

    Where points run makes no difference to the results. A point that fails stops no other: see `Results.failed`. A
    script that calls this needs `if __name__ == "__main__":`, for its processes. It takes no callbacks, which its
    processes could not share.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables: see
            `airfl.load_settings`.
        axes: Dotted key -> values, each with each of the other keys, `{"scheme.ratio": [0.1, 0.3]}`.
        out: A new folder, or that of a sweep to go on with.
        seeds: Runs a point, their seeds counted up from run.seed.
        overrides: For all points, as in `airfl.load_settings`.
        zipped: Groups of keys of `axes` that go together, value by value.
        points: Settings by dotted key, listed one by one, instead of or beside `axes`.
        rows: True for the file's [[compare]] rows, each with each point; or rows, label -> overrides.
        jobs: Points that run at a time, in processes of this machine.
        cluster: The address of a Dask scheduler, whose workers run the points instead.
        device: "cpu" or "cuda".
        data_dir: As in `airfl.run`.
        progress: True shows the command line's bar, or plain lines where there is no terminal. A function is called
            with a `airfl.sweeps.status.Status` at the beginning and after every point.
        report: The same, by its older name.
        plugins: As in `airfl.load_settings`.
        task: As in `airfl.run`; its processes, or workers, get it as it is here.

    Raises UserError for what cannot be used, before any point runs.
    """
    plan = Plan(axes or {}, zipped, points if points is not None else ({},), rows, seeds)
    where = Place(jobs, cluster, device, Path(data_dir) if data_dir else None)
    built = build_points(config, overrides, plan, plugins=plugins, task=task)
    with asked_progress(report if progress is None else progress) as told:
        return run_points(built, Path(out), where, told)


def run_points(
    points: Sequence[Point], out: Path, where: Place, report: Report | None = None, command: str = SWEEP
) -> Results:
    """The work behind `sweep`, of points that are built; command: sweep or tune, which do not share a folder."""
    if where.cluster is None:
        check_guard()
    check_points(points, out, where, command)
    tell = report or (lambda status: None)
    with _workplace(points, where) as (work, at_once), alone(out):
        new = not (out / SWEEP_NAME).exists()
        listing = open_folder(out, command).joined([point.entry() for point in points])
        listing = replace(listing, root=out, command=command)
        write_listing(listing)
        waiting = {point.folder: point for point in points if not listing.finished(point.entry())}
        status = Status(len(points), before=len(points) - len(waiting), at_once=at_once)
        tell(status)
        clear_attempts(out / RUNNING_NAME, waiting)
        try:
            # Closed before the folder is let go: whoever is at a point is stopped by then.
            with closing(work([_job(point, where) for point in waiting.values()], out / RUNNING_NAME)) as outcomes:
                for outcome in outcomes:
                    point = waiting.pop(outcome.name)
                    listing = _settled(listing, point, outcome)
                    status = status.after(point.name, outcome.cause, outcome.seconds)
                    tell(status)
        except UserError:  # of a script that no process can import: nothing was begun
            if new and len(waiting) == status.points:
                (out / SWEEP_NAME).unlink()
            raise
        finally:
            clear_attempts(out / RUNNING_NAME, waiting)
    return read_results(out)


def _settled(listing: Listing, point: Point, outcome: Outcome) -> Listing:
    """The finished run moved to its place, or the cause kept that there is none."""
    failed = {name: cause for name, cause in listing.failed.items() if name != point.folder}
    if outcome.cause is None:
        place(listing.root, point.folder, _asked(point))
    else:
        failed[point.folder] = outcome.cause
    if failed == listing.failed:
        return listing
    listing = replace(listing, failed=failed)
    write_listing(listing)
    return listing


Work = Callable[[Sequence[Job], Path], Generator[Outcome, None, None]]


@contextmanager
def _workplace(points: Sequence[Point], where: Place) -> Iterator[tuple[Work, int]]:
    """What runs jobs, and how many at once, data at hand: UserError where a data set, a device or the cluster is not
    there."""
    task = next((point.task for point in points if point.task), None)
    sent = None if task is None else packed_task(task)
    if where.cluster is None:
        find_device(where.device)
        _load_data(points, where)
        yield lambda jobs, running: run_jobs(jobs, running, where.jobs, sent), where.jobs
        return
    data = _load_data(points, where)
    with closing(Cluster(where.cluster)) as cluster:

        def work(jobs: Sequence[Job], running: Path) -> Generator[Outcome, None, None]:
            for outcome in cluster.run_jobs(jobs, data, sent):
                yield put(outcome, running)

        yield work, cluster.workers


def _load_data(points: Sequence[Point], where: Place) -> dict[str | Dataset, RawData]:
    """The data sets of the points, each found to be divisible as its points want it."""
    from airfl.tasks.task import build_task

    folders = data_folders(where.data_dir)
    data: dict[str | Dataset, RawData] = {}
    seen = []
    for point in points:
        settings = point.settings
        name, what = settings.task.dataset, (settings.task, settings.run.devices)
        if what in seen:
            continue
        seen.append(what)
        if name not in data:
            data[name] = load_data(settings.task, folders, point.task)
        build_task(settings, data[name], Streams(settings.run.seed), point.task)
    return {name: raw for name, raw in data.items() if name != OWN}  # which goes with the task


def _job(point: Point, where: Place) -> Job:
    return Job(point.folder, settings_of_a_point(point.settings), where.data_dir, where.device)


def _asked(point: Point) -> dict[str, Any]:
    return {
        "airfl_version": __version__,
        "label": point.label,
        "values": dict(point.values),
        "seed": point.settings.run.seed,
        "settings": point.settings.model_dump(),
        **({"task": point.task.fingerprint} if point.task else {}),
        **({"code": code} if (code := code_of(point.settings)) else {}),
    }
