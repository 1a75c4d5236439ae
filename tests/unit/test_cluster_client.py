"""The client of sweeps on a cluster, with a scheduler that does what a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airfl.errors import MachineError
from airfl.study.attempts import Attempts
from airfl.study.sweeps.cluster import client as module
from airfl.study.sweeps.cluster.client import Cluster
from airfl.study.sweeps.cluster.orders import Order
from airfl.study.sweeps.cluster.reply import Reply
from airfl.study.sweeps.job import Again, Job, Outcome, settings_of_a_point
from airfl.study.sweeps.place import Patience
from tests.conftest import small_settings

NAMES = ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc")
FILES = {"trace.h5": b"trace", "digest.json": b"digest"}


@dataclass
class Future:
    """Dask's future of an attempt at a point, or of data."""

    order: Order | None = None
    status: str = "pending"
    outcome: Outcome | None = None
    told: list[Callable[[Any], None]] = field(default_factory=list)

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        self.told.append(function)
        if self.status != "pending":
            function(self)

    def become(self, status: str, outcome: Outcome | None = None) -> None:
        self.status, self.outcome = status, outcome
        for function in self.told:
            function(self)

    def result(self, timeout: float) -> Any:
        return self.outcome

    def release(self) -> None: ...


class Site:
    """A scheduler as the client of a sweep sees it: connection, Dask's client, pool of workers and lease in one."""

    name, devices, options, size = "lease", None, dict[str, Any](), 1

    def __init__(self, monkeypatch: pytest.MonkeyPatch, retries: int) -> None:
        self.is_open, self.client, self.address = True, self, "tcp://127.0.0.1:1"
        self.scattered, self.attempts, self.news = list[Future](), list[Future](), list[Reply]()
        self.running, self.revoked, self.cancelled = set[str](), set[str](), list[Future]()
        self.is_empty, self.looks, self.moved = False, 0, False
        self.reported, self.stopping, self.renew_s = dict[str, dict[int, float]](), frozenset[str](), 7.0
        for part in ("Connection", "Pool", "Lease"):
            monkeypatch.setattr(module, part, lambda *_: self)
        monkeypatch.setattr(module, "box", lambda *_: self)
        monkeypatch.setattr(module, "replies", lambda _: [self.news.pop()] if self.news else [])
        monkeypatch.setattr(module, "SECONDS_BETWEEN_LOOKS", 0.01)
        monkeypatch.setattr(module, "SECONDS_TO_GATHER", 0.0)
        self.cluster = Cluster(self.address, patience=Patience(retries=retries))

    def outcomes(self, running: Path, points: int = 1) -> Iterator[Outcome]:
        jobs = [Job(name, settings_of_a_point(small_settings())) for name in NAMES[:points]]
        dataset: Any = jobs[0].settings.task.dataset
        return self.cluster.run_jobs(jobs, running, {dataset: object})  # type: ignore[dict-item]

    # Dask's client

    def scatter(self, *_: Any, **__: Any) -> Future:
        self.scattered.append(Future(status="finished"))
        return self.scattered[-1]

    def submit(self, _function: Any, order: Order, *_: Any, **__: Any) -> Future:
        self.attempts.append(Future(order))
        self.on_attempt(len(self.attempts), self.attempts[-1])
        return self.attempts[-1]

    def on_attempt(self, number: int, future: Future) -> None:
        """What happens when a point is submitted for the nth time."""

    def cancel(self, futures: list[Future]) -> None:
        self.cancelled += futures
        if not self.is_open:
            raise OSError("lost")

    # Connection

    def reach(self) -> bool:
        lost, self.is_open = not self.is_open, True
        return lost

    def wait_for_a_worker(self, kind: Any = None, is_usable: Callable[[list[str]], bool] = bool) -> None:
        while not is_usable(["a"]):
            if self.looks > 5:
                raise kind("no workers")

    # Pool

    def look(self, *_: Any) -> bool:
        self.looks += 1
        return self.moved and self.looks == 1

    # Lease

    def has_news(self) -> bool:
        return True

    def revoke(self, attempts: list[str]) -> None:
        self.revoked |= {*attempts}

    def stop(self, attempts: frozenset[str]) -> None:
        self.stopping = attempts


def finished(future: Future) -> None:
    assert future.order is not None
    future.become("finished", Outcome(future.order.name, files=FILES))


def later(action: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something the next time that the client waits."""
    waits = Cluster._next

    def next_once(cluster: Cluster) -> Any:
        monkeypatch.setattr(Cluster, "_next", waits)
        action()
        return waits(cluster)

    monkeypatch.setattr(Cluster, "_next", next_once)


@pytest.mark.parametrize("lost", ["data", "scheduler"])
def test_what_was_lost_is_submitted_again_with_its_data_and_one_line(
    lost: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the point that was running counts as lost."""
    site = Site(monkeypatch, retries=3)

    def lose() -> None:
        site.running = {site.attempts[0].order.attempt}  # type: ignore[union-attr]
        site.is_open = lost == "data"
        for future in site.scattered + site.attempts:
            future.become("lost" if lost == "data" else "cancelled")

    site.on_attempt = lambda number, future: finished(future) if number > 3 else None  # type: ignore[method-assign]
    later(lose, monkeypatch)
    outcomes = sorted(site.outcomes(tmp_path, 3), key=lambda one: one.name)
    assert [(one.name, one.cause, one.retried) for one in outcomes] == [
        (NAMES[0], None, 1),
        (NAMES[1], None, 0),
        (NAMES[2], None, 0),
    ]
    assert len(site.scattered) == 2
    assert site.revoked == {one.order.attempt for one in site.attempts[:3]}  # type: ignore[union-attr]
    (line,) = capsys.readouterr().err.splitlines()
    what = "all workers with the data were" if lost == "data" else "the scheduler was"
    assert line.startswith(f"--cluster: {what} lost, and back after ")
    assert line.endswith("; 3 of 3 points are submitted again")


def test_a_point_is_lost_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the death of its process, with all workers, or given up by Dask."""
    for how in ("died", "lost", "given up"):
        site = Site(monkeypatch, retries=2)

        def end(number: int, future: Future, site: Site = site, how: str = how) -> None:
            assert future.order is not None
            site.running = {future.order.attempt}
            if how == "died":
                future.become("finished", Outcome(future.order.name, "its process died", again=Again.DIED))
            elif how == "lost":
                future.become("lost")
            else:
                monkeypatch.setattr(Future, "result", lambda *_, **__: 1 / 0)
                future.become("error")

        site.on_attempt = end  # type: ignore[method-assign]
        (outcome,) = site.outcomes(tmp_path)
        assert (len(site.attempts), outcome.again, outcome.retried) == (3, Again.DIED, 2)
        assert outcome.cause is not None
        assert outcome.cause.startswith("its process died" if how == "died" else "lost by the cluster")


def test_a_point_that_is_asked_to_stop_is_not_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = Site(monkeypatch, retries=0)

    def end(number: int, future: Future) -> None:
        assert future.order is not None
        stopped = Outcome(future.order.name, "its process was asked to stop", again=Again.ASKED)
        future.become("finished", stopped if number < 5 else Outcome(future.order.name, files=FILES))

    site.on_attempt = end  # type: ignore[method-assign]
    (outcome,) = site.outcomes(tmp_path)
    assert (outcome.files, outcome.retried) == (FILES, 0)


def test_what_an_earlier_attempt_returns_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A checkpoint that arrives by another way replaces the attempt, whose failure then counts for nothing."""
    site = Site(monkeypatch, retries=0)
    checkpoint = {"state-00000007": b"state", "about": b"about", "records": b"records"}

    def on_attempt(number: int, future: Future) -> None:
        assert future.order is not None
        if number == 1:
            site.news.append(Reply(NAMES[0], checkpoint, finished=False))
            return
        assert future.order.start == checkpoint
        assert site.revoked == {site.attempts[0].order.attempt}  # type: ignore[union-attr]
        site.attempts[0].become("finished", Outcome(NAMES[0], "failed: its folder is gone"))
        later(lambda: finished(future), monkeypatch)

    site.on_attempt = on_attempt  # type: ignore[method-assign]
    (outcome,) = site.outcomes(tmp_path)
    assert (outcome.cause, outcome.files) == (None, FILES)
    assert len(site.attempts) == 2


def test_a_finished_point_that_arrives_by_another_way_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = Site(monkeypatch, retries=0)
    site.on_attempt = lambda *_: site.news.append(Reply(NAMES[0], FILES, finished=True))  # type: ignore[method-assign]
    (outcome,) = site.outcomes(tmp_path)
    assert (outcome.cause, outcome.files) == (None, FILES)
    assert site.cancelled == site.attempts


def test_points_wait_for_a_worker_of_this_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = Site(monkeypatch, retries=0)
    site.is_empty = True
    with pytest.raises(MachineError, match="no workers"):
        list(site.outcomes(tmp_path))
    assert site.looks == 6


def test_a_scheduler_that_is_lost_while_points_are_moved_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The pool has changed, so the point is to be submitted again, and the scheduler is lost at that moment."""
    site = Site(monkeypatch, retries=0)
    site.moved = True
    looks = site.look

    def look(*_: Any) -> bool:
        site.is_open = site.looks > 0
        return looks()

    monkeypatch.setattr(site, "look", look)
    site.on_attempt = lambda number, future: finished(future) if number > 1 else None  # type: ignore[method-assign]
    (outcome,) = site.outcomes(tmp_path)
    assert (outcome.cause, len(site.attempts)) == (None, 2)


class Feed:
    """Gives out points as there are places, and no longer wants one whose figure is below 0.5."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, self.given, self.bad = [*names], list[list[str]](), set[str]()

    def more(self, at_once: int) -> list[Job]:
        free = at_once - sum(map(len, self.given)) + len(self.bad)
        new, self.names = self.names[: max(0, free)], self.names[max(0, free) :]
        self.given.append(new)
        return [Job(name, settings_of_a_point(small_settings())) for name in new]

    def reported(self, name: str, values: Mapping[int, float]) -> None:
        self.bad |= {name for value in values.values() if value < 0.5}

    def unwanted(self) -> set[str]:
        return self.bad

    @property
    def over(self) -> bool:
        return not self.names


def fed(site: Site, feed: Feed, running: Path, shared: Path | None = None) -> Iterator[Outcome]:
    data: Any = {small_settings().task.dataset: object}
    return site.cluster.run_jobs([], running, data, shared=shared, feed=feed)


def test_a_feed_gives_out_as_many_points_as_there_are_workers_and_stops_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second worker comes later. Figures of attempts that nobody knows are dropped."""
    site, feed = Site(monkeypatch, retries=3), Feed(NAMES)

    def on_attempt(number: int, future: Future) -> None:
        assert future.order is not None
        if number == 1:
            site.reported = {future.order.attempt: {2: 0.7}, "another": {2: 0.1}}
            later(lambda: setattr(site, "size", 2), monkeypatch)
        elif number == 2:
            site.reported = {future.order.attempt: {2: 0.4}}

    stopping = Site.stop

    def stop(site: Site, attempts: frozenset[str]) -> None:
        stopping(site, attempts)
        for future in site.attempts:
            if future.order is not None and future.order.attempt in attempts and future.status == "pending":
                future.become("finished", Outcome(future.order.name, unwanted=True))
        if len(site.attempts) == 3:
            for future in (site.attempts[0], site.attempts[2]):
                if future.status == "pending":
                    finished(future)

    monkeypatch.setattr(site, "on_attempt", on_attempt)
    monkeypatch.setattr(Site, "stop", stop)
    outcomes = {outcome.name: outcome.unwanted for outcome in fed(site, feed, tmp_path)}
    assert outcomes == dict(zip(NAMES, (False, True, False), strict=True))
    assert [given for given in feed.given if given] == [[NAMES[0]], [NAMES[1]], [NAMES[2]]]
    assert site.renew_s < 7
    assert len(site.attempts) == 3


def test_an_unwanted_point_that_was_lost_is_not_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its worker has left an attempt in the shared folder, which the client removes."""
    site, feed, shared = Site(monkeypatch, retries=3), Feed(NAMES[:1]), tmp_path / "shared" / "airfl-sweep"

    def on_attempt(number: int, future: Future) -> None:
        assert future.order is not None
        Attempts(shared, future.order.name).begin({})
        feed.bad.add(future.order.name)
        lost = Outcome(future.order.name, "its process died", again=Again.DIED)
        later(lambda: future.become("finished", lost), monkeypatch)

    monkeypatch.setattr(site, "on_attempt", on_attempt)
    (outcome,) = fed(site, feed, tmp_path, shared)
    assert (outcome.name, outcome.unwanted, len(site.attempts)) == (NAMES[0], True, 1)
    assert not shared.exists()
