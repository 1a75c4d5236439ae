"""Where points run: their data, and the processes or the cluster that run jobs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airfl.config.task import OWN
from airfl.core.device import find_device
from airfl.learning.chosen_task import load_data
from airfl.learning.tasks.datasets import data_folders
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.streams import Streams
from airfl.study.sweeps.cluster.client import Cluster
from airfl.study.sweeps.cluster.received import put
from airfl.study.sweeps.cluster.shared import folder_of_sweep
from airfl.study.sweeps.feed import Feed
from airfl.study.sweeps.gpus import processes_for
from airfl.study.sweeps.job import Job, Outcome, packed_task, settings_of_a_point
from airfl.study.sweeps.local import run_jobs
from airfl.study.sweeps.place import Place
from airfl.study.sweeps.points import SweepPoint


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


def job_of(point: SweepPoint, where: Place, reports: str = "") -> Job:
    """Return the job of a point. reports: the variable of its trace that is reported after evaluations; "" for none."""
    return Job(point.folder, settings_of_a_point(point.settings), where.data_dir, where.device, reports=reports)
