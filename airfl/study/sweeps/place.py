"""Where points run, and the checks of points that need neither data nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airfl.analysis.results.sweep_folder import SWEEP, check_place, check_same_sweep, open_folder
from airfl.core.device import check_kind
from airfl.core.preflight import check_recipe
from airfl.errors import UserError
from airfl.learning.chosen_task import check_fit
from airfl.learning.tasks.datasets import data_folders
from airfl.study.sweeps.points import SweepPoint


@dataclass(frozen=True)
class Place:
    """Where the points of a sweep run.

    Attributes:
        jobs: Number of processes on this machine; 0 for as many as its cores, or its GPUs' memory, allow.
        cluster: Address of a Dask scheduler; None for this machine.
        device: cpu, cuda or cuda:k. With cuda, processes are spread over all GPUs, and a cluster's worker has its own.
        data_dir: Folder that is searched first for data; None for the default folders only.
    """

    jobs: int = 1
    cluster: str | None = None
    device: str = "cpu"
    data_dir: Path | None = None


def check_points(points: Sequence[SweepPoint], out: Path, where: Place, command: str = SWEEP) -> None:
    """Raise UserError if a point or place is invalid, or the folder has other contents."""
    if where.jobs < 0:
        raise UserError(f"--jobs: must be at least 1, or 0 for as many as fit, got {where.jobs}")
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
