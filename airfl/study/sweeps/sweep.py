"""Runs a sweep: every point once, each in its own run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.collect import read_results
from airfl.analysis.results.result import Results
from airfl.analysis.results.sweep_folder import (
    RUNNING_NAME,
    SWEEP,
    check_same_data,
    exclusive,
    open_folder,
    write_listing,
)
from airfl.config import Config, Overrides
from airfl.config.arguments import public
from airfl.errors import UserError
from airfl.storage.output_files import SWEEP_NAME
from airfl.study.attempts import take_over
from airfl.study.shards import Shard
from airfl.study.sweeps.attempt import clear_attempts
from airfl.study.sweeps.local import check_guard
from airfl.study.sweeps.place import Place, check_points, place_of
from airfl.study.sweeps.points import SweepPlan, SweepPoint, build_points
from airfl.study.sweeps.progress import asked_progress
from airfl.study.sweeps.settling import settled
from airfl.study.sweeps.sharded import run_shared
from airfl.study.sweeps.status import Report, Status
from airfl.study.sweeps.workplace import job_of, workplace

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
        with workplace(points, where) as at:
            check_same_data(open_folder(out, command), at.data.checksums(*points))
            run_shared(
                points,
                out,
                where.shard,
                command,
                at.work,
                tell,
                at.at_once,
                at.data.request_of,
                lambda one: job_of(one, where, at.data),
            )
        return read_results(out)
    with workplace(points, where) as at, exclusive(out):
        new = not (out / SWEEP_NAME).exists()
        before = open_folder(out, command)
        check_same_data(before, at.data.checksums(*points))
        listing = replace(before.joined([point.entry() for point in points]), root=out, command=command)
        write_listing(listing)
        waiting = {point.folder: point for point in points if not listing.finished(point.entry())}
        cut_off: set[str] = set()  # points whose checkpoints are kept for the next time
        status = Status(len(points), before=len(points) - len(waiting), at_once=at.at_once)
        tell(status)
        take_over(out, lambda name: out / RUNNING_NAME / name if name in waiting else None)
        clear_attempts(out / RUNNING_NAME, waiting)
        try:
            # Closed before the lock is released, so that no process is still running a point by then.
            jobs = [job_of(point, where, at.data) for point in waiting.values()]
            with closing(at.work(jobs, out / RUNNING_NAME)) as outcomes:
                for outcome in outcomes:
                    point = waiting.pop(outcome.name)
                    listing = settled(listing, point, outcome, at.data.request_of)
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
