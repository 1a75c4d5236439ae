"""Sweeps whose processes are killed at random moments: workers, nannies, the scheduler, the client, and points."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pandas as pd
import pytest

from airfl.analysis.results import read_results
from airfl.core.checkpoint import is_carried, rounds_of
from airfl.study.sweeps.cluster import on_worker
from airfl.study.sweeps.cluster.lease import LEASE_S, Leases
from airfl.study.sweeps.cluster.orders import Given, Order
from airfl.study.sweeps.job import Again, Job, Outcome, packed_job, settings_of_a_point
from airfl.study.sweeps.local import run_jobs
from tests.conftest import DEMO, SMALL, small_settings
from tests.end_to_end.test_sweep_on_a_cluster import NO_DASHBOARD, start
from tests.processes import Child, airfl, begun, succeeded
from tests.processes import warm_workers as warm_workers
from tests.reliability.scale import FULL, Measured, cases
from tests.resuming import assert_same_trace

psutil = pytest.importorskip("psutil")
NAME = "0123456789ab"
LONG = ("run.rounds=100000", "run.evaluate_every=100000", "run.checkpoint_every=1")


def states(folder: Path) -> list[int]:
    """The rounds of the states that runs below a folder have saved."""
    return sorted(int(one.name.rpartition("-")[2]) for one in folder.rglob("checkpoint/state-*"))


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


# The process of a point


def in_the_background(child: Any, order: Order, given: Given) -> list[Outcome]:
    found: list[Outcome] = []
    threading.Thread(target=lambda: found.append(child.run(order, given)), daemon=True).start()
    return found


def test_a_point_that_is_asked_to_stop_leaves_a_checkpoint_and_ends_with_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process goes on from there until its lease is not renewed. Neither leaves anything."""
    tmp, leases = tmp_path / "tmp", Leases()
    tmp.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp))
    monkeypatch.setattr(on_worker, "HERE", leases)
    worker = Namespace(status=Namespace(name="running"))
    job = packed_job(Job(NAME, settings_of_a_point(small_settings(*LONG))))
    leases.begin("lease", "first")
    over = threading.Event()

    def renew() -> None:
        while not over.wait(1):
            leases.renew("lease")

    threading.Thread(target=renew, daemon=True).start()
    child = on_worker.Child("lease", worker)
    found = in_the_background(child, Order("lease", "first", NAME), Given(job))
    until(lambda: max(states(tmp), default=0) > 2)
    worker.status.name = "closing"
    until(lambda: found)
    (outcome,) = found
    assert (outcome.name, outcome.again) == (NAME, Again.ASKED)
    assert is_carried(outcome.files)
    assert outcome.files is not None
    reached = rounds_of(outcome.files)
    assert reached > 2
    until(lambda: not child.is_there)
    until(lambda: not list(tmp.iterdir()))

    worker.status.name = "running"
    child = on_worker.Child("lease", worker)
    found = in_the_background(child, Order("lease", "first", NAME), Given(job, start=outcome.files))
    until(lambda: max(states(tmp), default=0) > reached)
    assert min(states(tmp)) >= reached
    over.set()
    time.sleep(1.1)
    monkeypatch.setattr(leases, "_renewed", {"lease": time.monotonic() - LEASE_S})
    until(lambda: found)
    assert (found[0].again, found[0].files) == (Again.ASKED, None)
    until(lambda: not child.is_there)
    until(lambda: not list(tmp.iterdir()))


# Processes of this machine


def test_a_local_point_whose_process_is_killed_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """As often as it may; and once more in vain, after which its checkpoint is still there."""
    job = Job(NAME, settings_of_a_point(small_settings(*LONG)))
    here, deaths, outcomes = psutil.Process(), 0, list[Outcome]()
    before = {one.pid for one in psutil.process_iter()}
    thread = threading.Thread(target=lambda: outcomes.extend(run_jobs([job], tmp_path, 1, retries=2)), daemon=True)
    thread.start()
    while thread.is_alive():
        reached = max(states(tmp_path), default=0)
        until(lambda reached=reached: max(states(tmp_path), default=0) > reached or not thread.is_alive())
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid not in before and str(tmp_path) in " ".join(
                    str(one.path) for one in process.open_files()
                ):
                    process.kill()
                    deaths += process.pid != here.pid
        time.sleep(0.1)
    (outcome,) = outcomes
    assert deaths == 3
    assert (outcome.again, outcome.retried) == (Again.DIED, 2)
    assert outcome.cause == "its process died (SIGKILL); was there enough memory?"
    assert max(states(tmp_path)) >= 3


# The whole


OF_POINTS = ("run.rounds=12", "run.checkpoint_every=2", "run.evaluate_every=12")


def words(points: int, out: Path) -> tuple[object, ...]:
    return ("sweep", DEMO, *SMALL, *OF_POINTS, f"run.seed=0:{points - 1}:1", "--out", out, "--retries", 50)


def is_running(process: Child) -> bool:
    with suppress(psutil.Error):
        return bool(psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE)
    return False


@dataclass
class Site:
    """A scheduler and workers that are started again where they end, as a batch system does."""

    folder: Path
    port: int
    count: int = 0
    scheduler: Child | None = None
    workers: list[Child | None] = field(default_factory=lambda: [None, None])

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    def begin(self, what: str, *words: str) -> Child:
        self.count += 1
        listen = ("--host", "127.0.0.1", *NO_DASHBOARD)
        return start(self.folder / f"{what}-{self.count}", what, *words, *listen, TMPDIR=str(self.tmp))

    def tend(self) -> None:
        """Start what has ended."""
        if self.scheduler is None or not is_running(self.scheduler):
            self.scheduler = self.begin("scheduler", "--port", str(self.port))
        for place, worker in enumerate(self.workers):
            if worker is None or not is_running(worker):
                self.workers[place] = self.begin("worker", self.address, "--nthreads", "1")

    def family(self) -> list[Any]:
        """All processes of the site."""
        found = []
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                if one.environ().get("TMPDIR") == str(self.tmp) and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        return found

    def points(self) -> list[Any]:
        """The processes that run points."""
        found = []
        for one in self.family():
            with suppress(psutil.Error):
                if "sweeps.cluster.child" in " ".join(one.cmdline()):
                    found.append(one)
        return found

    def kill(self, what: str, client: Child, drawn: random.Random) -> None:
        """Kill one process of this kind, if there is one."""
        at = [worker for worker in self.workers if worker is not None]
        with suppress(psutil.Error, ProcessLookupError, IndexError):
            if what == "client":
                client.send(signal.SIGKILL)
            elif what == "scheduler" and self.scheduler:
                self.scheduler.send(signal.SIGKILL)
            elif what == "nanny":
                drawn.choice(at).send(drawn.choice([signal.SIGKILL, signal.SIGTERM]))
            elif what == "worker":
                below = psutil.Process(drawn.choice(at).pid).children()
                drawn.choice([one for one in below if "spawn_main" in " ".join(one.cmdline())]).kill()
            else:
                drawn.choice(self.points()).kill()


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        one = Site(folder, free.getsockname()[1])
    one.tmp.mkdir(parents=True)
    try:
        yield one
    finally:
        for process in one.family():
            with suppress(psutil.Error):
                process.kill()


def same(out: Path, other: Path, points: int) -> None:
    """The two sweeps have every point once, with equal results."""
    one, two = read_results(out), read_results(other)
    assert not one.failed
    assert len(one.runs) == len(two.runs) == points
    pd.testing.assert_frame_equal(one.frame().drop(columns="folder"), two.frame().drop(columns="folder"))
    for run, undisturbed in zip(one.runs, two.runs, strict=True):
        assert run.folder.name == undisturbed.folder.name
        assert_same_trace(run.folder, undisturbed.folder)
    assert not (out / ".running").exists()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    succeeded(airfl(*words(cases(16, 60), out), "--jobs", 2))
    return out


@pytest.mark.full
@pytest.mark.parametrize("time_of", range(cases(1, 10)))
@pytest.mark.parametrize("shared", [False, True], ids=["sent back", "shared folder"])
def test_a_cluster_that_can_lose_anything(
    time_of: int, shared: bool, undisturbed: Path, tmp_path: Path, measured: Measured
) -> None:
    """Worker, nanny, scheduler, client and point are killed at random moments, in a random order."""
    pytest.importorskip("distributed")
    seed = random.randrange(10**6) if FULL else 7
    print(f"seed {seed}")  # pytest shows it where the test fails
    drawn, points, out = random.Random(seed), cases(16, 60), tmp_path / "out"
    kinds = ["worker", "nanny", "scheduler", "client", "point"]
    drawn.shuffle(kinds)
    due = sorted(drawn.uniform(0.05, 0.9) * points for _ in kinds)
    more: tuple[object, ...] = ()
    if shared:
        (tmp_path / "shared").mkdir()
        more = ("--shared-dir", tmp_path / "shared")
    with site(tmp_path / "site") as one:
        one.tend()

        def client() -> Child:
            return begun(*words(points, out), "--cluster", one.address, "--scheduler-wait-s", 300, *more)

        until(lambda: list((one.folder).glob("scheduler-*")))
        running, killed, clients = client(), list[str](), 1
        end = time.monotonic() + 3000
        while is_running(running) or killed[-1:] == ["client"]:
            assert time.monotonic() < end, running.stderr
            if not is_running(running):
                running.wait()
                running, clients = client(), clients + 1
                killed.append("")
            done = len(list(out.glob("*/trace.h5")))
            if due and done >= due[0]:
                time.sleep(drawn.uniform(0, 1))
                killed.append(kinds.pop())
                one.kill(killed[-1], running, drawn)
                del due[0]
                time.sleep(drawn.uniform(0, 2))
            one.tend()
            time.sleep(0.2)
        assert running.wait() == 0, running.stderr
        assert "Traceback" not in running.stderr
        same(out, undisturbed, points)
        until(lambda: not one.points(), 2 * LEASE_S)
        until(lambda: not list(one.tmp.glob("airfl-*")), 2 * LEASE_S)
        if shared:
            assert list((tmp_path / "shared").iterdir()) == []
        order = ", ".join(filter(None, killed))
        measured(f"cluster: {points} points, killed in this order: {order} (seed {seed}): the same results")


@pytest.mark.full
@pytest.mark.parametrize("time_of", range(cases(1, 10)))
def test_local_points_are_killed_at_random_moments(
    time_of: int, undisturbed: Path, tmp_path: Path, measured: Measured
) -> None:
    seed = random.randrange(10**6) if FULL else 7
    print(f"seed {seed}")
    drawn, points, out, kills = random.Random(seed), cases(16, 60), tmp_path / "out", 0
    (tmp_path / "tmp").mkdir()
    client = begun(*words(points, out), "--jobs", 2, TMPDIR=str(tmp_path / "tmp"))
    due = sorted(drawn.uniform(0, 0.95) * points for _ in range(5))
    while is_running(client):
        if due and len(list(out.glob("*/trace.h5"))) >= due[0]:
            time.sleep(drawn.uniform(0, 0.5))
            with suppress(psutil.Error, IndexError):
                drawn.choice(psutil.Process(client.pid).children()).kill()
                kills += 1
            del due[0]
        time.sleep(0.05)
    assert client.wait() == 0, client.stderr
    same(out, undisturbed, points)
    assert not list((tmp_path / "tmp").glob("airfl-*"))
    measured(f"local points: {points} points, {kills} processes killed (seed {seed}): the same results")
