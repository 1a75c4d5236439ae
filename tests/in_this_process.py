"""Run points of sweeps in the test process, which saves seconds; in their own processes: tests/end_to_end."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from airfl.study.sweeps.attempt import attempt
from airfl.study.sweeps.feed import Feed
from airfl.study.sweeps.job import Job, Outcome, packed_job, unpacked_job, unpacked_task


def run_jobs(
    jobs: Iterable[Job],
    running: Path,
    processes: int,
    task: bytes | None = None,
    retries: int = 0,
    feed: Feed | None = None,
) -> Iterator[Outcome]:
    """Replace `run_jobs` of sweeps/local.py: run jobs one after another, each packed and unpacked as for a worker."""
    for job in jobs if feed is None else fed(feed):
        attempt(unpacked_job(packed_job(job)), running / job.name / job.attempt, unpacked_task(task) if task else None)
        yield Outcome(job.name)


def fed(feed: Feed) -> Iterator[Job]:
    """Yield the jobs that a feed gives out. Their figures are those of the finished run."""
    while not feed.over:
        yield from feed.more(1)


@pytest.fixture
def points_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the points of the test's sweeps in the test process."""
    monkeypatch.setattr("airfl.study.sweeps.workplace.run_jobs", run_jobs)
