"""Where points run, and the checks of points that need neither data nor torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airfl.analysis.results.sweep_folder import SWEEP, check_place, check_same_sweep, open_folder
from airfl.core.device import check_kind
from airfl.core.preflight import check_recipe
from airfl.errors import UserError
from airfl.learning.chosen_task import check_fit
from airfl.learning.tasks.datasets import data_folders
from airfl.storage.addresses import check_no_address
from airfl.study.shards import Shard, shard_of
from airfl.study.sweeps.points import SweepPoint


@dataclass(frozen=True)
class Patience:
    """How much is borne before a point or a sweep is given up.

    Attributes:
        retries: How often a point is run again after its process or worker was lost.
        worker_wait_s: Longest wait for a worker of a cluster, in s: for the first one, and when all are lost.
        scheduler_wait_s: Longest wait for a lost scheduler to come back, in s.
    """

    retries: int = 3
    worker_wait_s: float = 3600.0
    scheduler_wait_s: float = 300.0


DEFAULT = Patience()


@dataclass(frozen=True)
class Place:
    """Where the points of a sweep run.

    Attributes:
        jobs: Number of processes on this machine; 0 for as many as its cores, or its GPUs' memory, allow.
        cluster: Address of a Dask scheduler; None for this machine.
        device: cpu, cuda or cuda:k. With cuda, processes are spread over all GPUs, and a cluster's worker has its own.
        data_dir: Folder that is searched first for data; None for the default folders only.
        shared_dir: Folder for checkpoints that is at the same path on all workers of the cluster; None without one.
        patience: How much is borne before a point or the sweep is given up.
        shard: Which of several processes that share the folder of the sweep this one is; None if it has it for itself.
    """

    jobs: int = 1
    cluster: str | None = None
    device: str = "cpu"
    data_dir: Path | None = None
    shared_dir: Path | None = None
    patience: Patience = DEFAULT
    shard: Shard | None = None


def place_of(
    jobs: int,
    cluster: str | None,
    device: str,
    data_dir: str | Path | None,
    shared_dir: str | Path | None,
    retries: int,
    worker_wait_s: float,
    scheduler_wait_s: float,
    shard: str | Shard | None = None,
) -> Place:
    """Return the place that arguments of `sweep` and `tune` describe."""
    if shared_dir:
        check_no_address(Path(shared_dir), "--shared-dir")
    return Place(
        jobs,
        cluster,
        device,
        Path(data_dir) if data_dir else None,
        Path(shared_dir).absolute() if shared_dir else None,
        Patience(retries, worker_wait_s, scheduler_wait_s),
        shard_of(shard),
    )


def check_points(points: Sequence[SweepPoint], out: Path, where: Place, command: str = SWEEP) -> None:
    """Raise UserError if a point or place is invalid, or the folder has other contents."""
    if where.jobs < 0:
        raise UserError(f"--jobs: must be at least 1, or 0 for as many as fit, got {where.jobs}")
    if where.shard is not None and where.cluster is not None:
        raise UserError("--shard and --cluster: a cluster distributes the points by itself; give only one of them")
    if where.shared_dir is not None and where.cluster is None:
        raise UserError("--shared-dir: is for the workers of a cluster; give --cluster too, or omit it")
    _check_patience(where.patience)
    if where.cluster is not None and where.jobs != 1:
        raise UserError("--jobs and --cluster: points run either on this machine or on a cluster; give only one")
    check_kind(where.device)
    listing = open_folder(out, command)
    for point in points:
        if point.task is None:
            check_fit(point.settings)
        check_recipe(point.settings, point.task, data_folders(where.data_dir))
        check_place(out, point.folder, point.settings)
    for label in dict.fromkeys(point.label for point in points):
        one = next(point for point in points if point.label == label)
        check_same_sweep(listing, one.entry(), one.settings, one.task.fingerprint if one.task else "")


def _check_patience(given: Patience) -> None:
    if given.retries < 0:
        raise UserError(f"--retries: must be at least 0, got {given.retries}")
    for option, seconds in (
        ("--worker-wait-s", given.worker_wait_s),
        ("--scheduler-wait-s", given.scheduler_wait_s),
    ):
        if not 0 <= seconds < math.inf:
            raise UserError(f"{option}: must be a number of seconds of at least 0, got {seconds}")
