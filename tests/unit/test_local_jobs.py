"""Which process of this machine runs which point, and when it is asked for. The processes are imitated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from airfl.study.sweeps import local
from airfl.study.sweeps.feed import Reported
from airfl.study.sweeps.job import Again, Job, Outcome
from airfl.study.sweeps.local import run_jobs
from tests.conftest import small_settings


class Worker:
    """Stands in for a process: a point is over at the next look, unless its process dies of it."""

    given: list[str] = []  # noqa: RUF012  of the class
    all: list[Worker] = []  # noqa: RUF012
    deadly: dict[str, int] = {}  # noqa: RUF012  point -> how often its process dies

    def __init__(self) -> None:
        self.job: Job | None = None
        self.alive, self.stopped = True, False
        self.device, self.process, self.pipe, self.sentinel = None, self, self, self
        self.all.append(self)

    @classmethod
    def start(cls, running: Path, task: bytes | None, device: str | None = None) -> Worker:
        return cls()

    def give(self, job: Job) -> None:
        assert self.alive
        assert self.job is None
        self.job, self.stopped = job, False
        self.given.append(job.name)

    def stop_point(self) -> None:
        self.stopped = True

    def ready(self) -> bool:
        return True

    def is_alive(self) -> bool:
        return self.alive

    def reports(self) -> list[Reported]:
        return []

    def outcome(self) -> Outcome:
        assert self.job is not None
        name, self.job = self.job.name, None
        if self.deadly.get(name):
            self.deadly[name] -= 1
            self.alive = False
            return Outcome(name, "its process died", again=Again.DIED)
        return Outcome(name, unwanted=self.stopped)

    def stop(self) -> None:
        self.alive = False


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> type[Worker]:
    monkeypatch.setattr(local, "_Worker", Worker)
    monkeypatch.setattr(local, "wait", lambda *_: None)
    monkeypatch.setattr(local, "SECONDS_BETWEEN_LOOKS", 0)
    Worker.given, Worker.all, Worker.deadly = [], [], {}
    return Worker


def job(name: str) -> Job:
    return Job(name, small_settings())


def test_a_job_is_asked_for_when_a_process_is_free(workers: type[Worker], tmp_path: Path) -> None:
    """A shard claims a point when it is asked for, so that others can take those that it does not run yet."""
    asked: list[str] = []

    def jobs() -> Iterator[Job]:
        for name in "abcde":
            asked.append(name)
            yield job(name)

    seen = [(outcome.name, len(asked)) for outcome in run_jobs(jobs(), tmp_path, 2)]
    assert seen == [("a", 3), ("b", 4), ("c", 5), ("d", 5), ("e", 5)]
    assert len(workers.all) == 2


def test_a_point_whose_process_died_is_run_again_after_the_others(workers: type[Worker], tmp_path: Path) -> None:
    workers.deadly = {"a": 2, "b": 3}
    outcomes = list(run_jobs(iter([job(name) for name in "abcd"]), tmp_path, 1, retries=2))
    assert workers.given == [*"abcd", *"ab", *"ab"]
    assert [(one.name, one.cause, one.retried) for one in outcomes] == [
        *(("c", None, 0), ("d", None, 0), ("a", None, 2)),
        ("b", "its process died", 2),
    ]
    assert len(workers.all) == 1 + 4  # one after each death but the last


class Feed:
    """Gives out lists of points, one at each call, and no longer wants some of them."""

    def __init__(self, lists: list[str], bad: str = "") -> None:
        self.lists, self.bad = lists, {*bad}
        self.at_once: list[int] = []

    def more(self, at_once: int) -> list[Job]:
        self.at_once.append(at_once)
        return [job(name) for name in (self.lists.pop(0) if self.lists else "")]

    def reported(self, name: str, values: Mapping[int, float]) -> None:
        raise AssertionError

    def unwanted(self) -> set[str]:
        return self.bad

    @property
    def over(self) -> bool:
        return not self.lists


def test_processes_without_a_point_run_later_ones(workers: type[Worker], tmp_path: Path) -> None:
    """The second process is idle, then both, of which one has ended meanwhile."""
    names = []
    for outcome in run_jobs([], tmp_path, 2, feed=Feed(["a", "bc", "", "", "de"])):
        names.append(outcome.name)
        if outcome.name == "c":
            workers.all[0].alive = False
    assert names == workers.given == [*"abcde"]
    assert len(workers.all) == 3


def test_a_point_that_is_run_again_takes_the_place_of_a_further_one(workers: type[Worker], tmp_path: Path) -> None:
    workers.deadly = {"a": 1}
    feed = Feed(["ab", "", "c"])
    assert [outcome.name for outcome in run_jobs([], tmp_path, 2, feed=feed)] == [*"bac"]
    assert workers.given == [*"abac"]


def test_an_unwanted_point_is_stopped_and_not_run_again(workers: type[Worker], tmp_path: Path) -> None:
    workers.deadly = {"b": 1}
    outcomes = list(run_jobs([], tmp_path, 1, feed=Feed(["ab", "", ""], bad="b")))
    assert [(one.name, one.unwanted, one.cause) for one in outcomes] == [("a", False, None), ("b", True, None)]
    assert workers.given == [*"ab"]
