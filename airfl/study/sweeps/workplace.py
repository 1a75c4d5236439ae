"""Where points run: their data, and the processes or the cluster that run jobs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from airfl.config.task import OWN
from airfl.core.checkpoint.fingerprint import checksum, digest_of, recorded_files
from airfl.core.device import find_device
from airfl.learning.chosen_task import load_data
from airfl.learning.tasks.datasets import data_folders
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.streams import Streams
from airfl.storage.fingerprint import fingerprint, fingerprint_of_code, own_parts
from airfl.study.sweeps.cluster.client import Cluster
from airfl.study.sweeps.cluster.received import put
from airfl.study.sweeps.cluster.shared import folder_of_sweep
from airfl.study.sweeps.feed import Feed
from airfl.study.sweeps.gpus import processes_for
from airfl.study.sweeps.job import Job, Outcome, packed_task, settings_of_a_point
from airfl.study.sweeps.local import run_jobs
from airfl.study.sweeps.place import Place
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.settling import request_of


class Work(Protocol):
    """Runs jobs in a folder, each of which it asks for when it can begin, and those that a feed gives out meanwhile."""

    def __call__(
        self, jobs: Iterable[Job], running: Path, feed: Feed | None = None
    ) -> Generator[Outcome, None, None]: ...


@dataclass(frozen=True)
class Workplace:
    """Where points run.

    Attributes:
        work: Runs jobs.
        at_once: Number of jobs that it runs at a time, at the beginning.
        data: Their data.
    """

    work: Work
    at_once: int
    data: Data


@contextmanager
def workplace(points: Sequence[SweepPoint], where: Place) -> Iterator[Workplace]:
    """Load the data, and yield what runs jobs.

    Raises UserError if a data set, a device or the cluster is missing.
    """
    task = next((point.task for point in points if point.task), None)
    sent = None if task is None else packed_task(task)
    data = Data(where)
    if where.cluster is None:
        find_device(where.device)
        data.load(points)
        threads = max((point.settings.run.threads for point in points), default=0)
        processes = processes_for(where.jobs, where.device, threads)
        retries = where.patience.retries

        def here(jobs: Iterable[Job], running: Path, feed: Feed | None = None) -> Generator[Outcome, None, None]:
            return run_jobs(jobs, running, processes, sent, retries, feed)

        yield Workplace(here, processes.first, data)
        return
    data.load(points)
    with closing(Cluster(where.cluster, where.device, where.patience)) as cluster:

        def far(jobs: Iterable[Job], running: Path, feed: Feed | None = None) -> Generator[Outcome, None, None]:
            shared = None if where.shared_dir is None else folder_of_sweep(where.shared_dir, running.parent)
            for outcome in cluster.run_jobs(jobs, running, data.to_send, sent, shared, feed):
                yield put(outcome, running)

        yield Workplace(far, cluster.workers, data)


class Data:
    """The data sets of points.

    Attributes:
        to_send: Those that the workers of a cluster need. A user-defined task is sent with its data.
    """

    def __init__(self, where: Place) -> None:
        self._folders = data_folders(where.data_dir)
        self._loaded: dict[str | Dataset, RawData] = {}
        self._checked: list[object] = []
        self._sums: dict[str | Dataset, str] = {}
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

    def checksums(self, *points: SweepPoint) -> dict[str, str]:
        """Return checksums of the data sets and recorded files of points that were loaded, by name.

        Data of a user-defined task are left out, as they are part of its fingerprint.
        """
        found = {}
        for settings in (point.settings for point in points):
            name = settings.task.dataset
            if name != OWN:
                if name not in self._sums:
                    self._sums[name] = f"{checksum(self._loaded[name], ()):08x}"
                found[str(name)] = self._sums[name]
            for file in recorded_files(settings):
                if file not in self._sums:
                    self._sums[file] = digest_of(file)
                found[file] = self._sums[file]
        return found

    def request_of(self, point: SweepPoint) -> dict[str, Any]:
        """Return what is written next to the finished run of a point that was loaded."""
        return {**request_of(point), "data": self.checksums(point)}


def job_of(point: SweepPoint, where: Place, data: Data, reports: str = "") -> Job:
    """Return the job of a point.

    Args:
        point: The point.
        where: Where it runs.
        data: The data, with those of the point.
        reports: The variable of its trace that is reported after evaluations; "" for none.
    """
    return Job(
        point.folder,
        settings_of_a_point(point.settings),
        where.data_dir,
        where.device,
        reports=reports,
        parts={key: fingerprint(part) for key, part in own_parts(point.settings).items()},
        task=fingerprint_of_code(point.task.code) if point.task else "",
        files={file: data.checksums(point)[file] for file in recorded_files(point.settings)},
    )
