"""The parts of sweeps on a cluster, without one: leases, checkpoints that travel, folders, waits."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pytest

import airfl
from airfl.core.checkpoint import carried, is_carried, put_carried, rounds_of
from airfl.errors import MachineError, UserError
from airfl.runtime.interrupt import asked_to_stop
from airfl.simulation import run
from airfl.storage.lock import locked
from airfl.study.sweeps.cluster import child, connection, lease, on_worker
from airfl.study.sweeps.cluster.connection import Connection
from airfl.study.sweeps.cluster.folder import PREFIX, remove, temporary_folder
from airfl.study.sweeps.cluster.lease import LEASE_S, Leases
from airfl.study.sweeps.cluster.orders import ASKED_TO_STOP, Given, Order, Way
from airfl.study.sweeps.cluster.shared import SharedPoint, folder_of_sweep
from airfl.study.sweeps.job import Again, Job, Outcome, packed_job, settings_of_a_point
from airfl.study.sweeps.place import Patience, Place, check_points
from tests.conftest import small_settings
from tests.resuming import assert_same_trace, interrupted

NAME = "0123456789ab"
SETTINGS = ("run.rounds=6", "run.checkpoint_every=1")


def begun(folder: Path, rounds: int) -> Path:
    """A run that was interrupted after so many rounds."""
    with pytest.raises(KeyboardInterrupt):
        run(small_settings(*SETTINGS), folder, progress=interrupted(rounds))
    return folder


# Leases


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(lease, "time", Namespace(monotonic=lambda: now[0]))
    return now


def test_a_lease_holds_as_long_as_it_is_renewed(clock: list[float]) -> None:
    leases = Leases()
    assert not leases.holds("a")
    leases.begin("a", "first")
    clock[0] += LEASE_S - 1
    assert leases.holds("a", "first")
    leases.renew("a")
    clock[0] += LEASE_S - 1
    assert leases.holds("a", "first")
    clock[0] += 1
    assert not leases.holds("a", "first")
    assert not leases.holds("b")


def test_an_attempt_that_is_revoked_is_not_wanted_and_a_lease_can_be_ended(clock: list[float]) -> None:
    leases = Leases()
    leases.begin("a", "first")
    leases.begin("b", "other")
    assert (leases.running("a"), leases.running("b")) == ({"first"}, {"other"})
    leases.renew("a", frozenset({"first"}))
    assert not leases.holds("a", "first")
    assert leases.holds("a", "second")
    leases.done("first")
    assert leases.running("a") == frozenset()
    leases.end("a")
    assert not leases.holds("a", "second")
    assert leases.holds("b", "other")


def test_what_running_attempts_report_comes_with_the_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they end; those of other leases are nobody else's business."""
    leases = Leases()
    monkeypatch.setattr(lease, "HERE", leases)
    for of, attempt in (("a", "first"), ("a", "second"), ("b", "other")):
        leases.begin(of, attempt)
    leases.report("first", 2, 0.5)
    leases.report("first", 4, 0.6)
    leases.report("other", 2, 0.1)
    answer = lease.renew("a", frozenset(), frozenset({"second"}))
    assert answer.running == {"first", "second"}
    assert answer.reported == {"first": {2: 0.5, 4: 0.6}}
    assert leases.is_unwanted("a", "second")
    assert not leases.is_unwanted("a", "first")
    assert leases.holds("a", "second")  # it may end its round
    leases.done("first")
    assert lease.renew("a", frozenset()).reported == {}
    assert not leases.is_unwanted("a", "second")


# The process of a point


def process(tmp: Path, given: Given, prepare: Callable[[pytest.MonkeyPatch], None]) -> tuple[list[Any], int]:
    """Give a point to the process of a worker, after `prepare` has changed what it does.

    Return what it sends, except for the name of its folder, and its exit code.
    """
    ours, theirs = Pipe()
    pid = os.fork()
    if not pid:
        try:
            patch = pytest.MonkeyPatch()
            patch.setattr("tempfile.tempdir", str(tmp))
            prepare(patch)
            ours.close()
            child.main(theirs.fileno())
        except SystemExit as end:
            os._exit(int(end.code or 0))
        finally:
            os._exit(1)
    theirs.close()
    ours.send(given)
    sent = []
    with suppress(EOFError):
        while True:
            sent.append(ours.recv())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert Path(sent[0]).parent == tmp
    return sent[1:], code


def test_a_point_whose_lease_has_ended_does_not_report_that_its_files_are_gone(tmp_path: Path) -> None:
    """Its folder has been removed, and the process is slow to end."""

    def prepare(patch: pytest.MonkeyPatch) -> None:
        def outcome(given: Given, folder: Path, data: Any, orders: Any) -> Outcome:
            orders.renewed -= LEASE_S
            while folder.exists():
                time.sleep(0.01)
            return Outcome(NAME, "FileNotFoundError")

        def removed(folder: Path) -> bool:
            gone = remove(folder)
            time.sleep(0.5)
            return gone

        patch.setattr(child, "_outcome", outcome)
        patch.setattr(child, "remove", removed)

    assert process(tmp_path, Given(b""), prepare) == ([], ASKED_TO_STOP)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_gets_sigterm_itself_sends_its_checkpoint_past_its_worker(tmp_path: Path) -> None:
    """As from a batch system, which signals worker and process at the same time. Then it ends."""
    (tmp_path / "tmp").mkdir()
    stopped = Outcome(NAME, "its process was asked to stop", {"a": b"checkpoint"}, seconds=1.0, again=Again.ASKED)

    def prepare(patch: pytest.MonkeyPatch) -> None:
        def outcome(*_: Any) -> Outcome:
            with asked_to_stop() as asked:
                os.kill(os.getpid(), signal.SIGTERM)
                assert asked()
            return stopped

        patch.setattr(child, "_outcome", outcome)
        patch.setattr(child, "send", lambda way, what: (tmp_path / way.lease).write_bytes(pickle.dumps(what)))

    given = Given(b"", way=Way("lease", "tcp://127.0.0.1:1"))
    assert process(tmp_path / "tmp", given, prepare) == ([stopped], ASKED_TO_STOP)
    assert pickle.loads((tmp_path / "lease").read_bytes()) == stopped


def test_a_point_reports_its_figure_after_evaluations_and_ends_when_it_is_unwanted(tmp_path: Path) -> None:
    """Nothing of it is left, and the process goes on."""
    (tmp_path / "tmp").mkdir()
    settings = ("run.rounds=6", "run.evaluate_every=2", "task.validation_share=0.1")
    job = Job(NAME, settings_of_a_point(small_settings(*SETTINGS, *settings)), reports="validation_accuracy")

    def prepare(patch: pytest.MonkeyPatch) -> None:
        after_a_round, outcome = child._Orders.after_a_round, child._outcome

        def stopping(orders: child._Orders, job: Job) -> Any:
            told = after_a_round(orders, job)

            def after(finished: int, rounds: int, record: Any) -> None:
                orders.unwanted = finished >= 5
                told(finished, rounds, record)

            return after

        def ended(given: Given, folder: Path, data: Any, orders: child._Orders) -> Outcome:
            found = outcome(given, folder, data, orders)
            assert not (folder / NAME).exists()
            orders.stop()  # it would wait for another point
            return found

        patch.setattr(child._Orders, "after_a_round", stopping)
        patch.setattr(child, "_outcome", ended)

    sent, _ = process(tmp_path / "tmp", Given(packed_job(job)), prepare)
    assert [(one.name, one.rounds) for one in sent[:-1]] == [(NAME, 2), (NAME, 4)]
    assert all(0 < one.value < 1 for one in sent[:-1])
    assert sent[-1] == replace(Outcome(NAME, unwanted=True), seconds=sent[-1].seconds)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_round_that_takes_too_long_to_stop_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    files = carried(begun(tmp_path / "earlier", 2))

    def prepare(patch: pytest.MonkeyPatch) -> None:
        def never_ends(job: Job, at: Path, *_: Any, **__: Any) -> None:
            put_carried(files, at)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(600)

        patch.setattr(child, "SECONDS_TO_STOP", 0.1)
        patch.setattr(child, "attempt", never_ends)
        patch.setattr(child, "send", lambda way, what, seconds: (tmp_path / way.lease).write_bytes(pickle.dumps(what)))

    job = packed_job(Job(NAME, settings_of_a_point(small_settings(*SETTINGS))))
    given = Given(job, way=Way("lease", "tcp://127.0.0.1:1"))
    assert process(tmp_path / "tmp", given, prepare) == ([], ASKED_TO_STOP)
    sent = pickle.loads((tmp_path / "lease").read_bytes())
    assert (sent.name, sent.files, sent.again) == (NAME, files, Again.ASKED)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("ends", "again", "cause"),
    [
        ("sys.exit(75)", Again.ASKED, "its process was asked to stop"),
        ("sys.exit(0)", Again.DIED, "its process ended with exit code 0, as by sys.exit() in code of your own"),
        ("os.kill(os.getpid(), 11)", Again.DIED, "its process died (SIGSEGV)"),
        ("os.kill(os.getpid(), 9)", Again.DIED, "its process died (SIGKILL); was there enough memory?"),
    ],
)
def test_a_process_that_has_died_was_asked_to_or_not(
    ends: str, again: Again, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = Leases()
    leases.begin("lease", "first")
    monkeypatch.setattr(on_worker, "HERE", leases)
    monkeypatch.setattr(on_worker, "BEGIN", f"import os, sys; {ends}")
    one = on_worker.Child("lease", Namespace(status=Namespace(name="running")))
    outcome = one.run(Order("lease", "first", NAME), Given(b""))
    assert (outcome.name, outcome.again, outcome.cause) == (NAME, again, cause)
    assert not one.is_usable


def test_a_worker_of_another_version_gives_a_point_back() -> None:
    outcome = on_worker.run_point(Order("lease", "first", NAME, version="0.0.1"), b"")
    assert (outcome.name, outcome.again) == (NAME, Again.ASKED)
    assert outcome.cause == f"its worker has airfl {airfl.__version__}"


# Checkpoints that travel


def test_a_checkpoint_goes_on_in_another_folder_with_the_same_trace(tmp_path: Path) -> None:
    files = carried(begun(tmp_path / "there", 3))
    assert is_carried(files)
    assert rounds_of(files) == 3
    put_carried(files, tmp_path / "here")
    run(small_settings(*SETTINGS), tmp_path / "here", resume=True)
    run(small_settings(*SETTINGS), tmp_path / "whole")
    assert_same_trace(tmp_path / "here", tmp_path / "whole")
    assert carried(tmp_path / "here") == {}
    assert rounds_of({}) == 0


def test_an_attempt_in_a_shared_folder_begins_with_the_newest_checkpoint(tmp_path: Path) -> None:
    """One from elsewhere counts too; and when the point has ended, nothing is left."""
    shared = tmp_path / "shared"
    shared.mkdir()
    sweep = folder_of_sweep(shared, tmp_path / "out")
    assert sweep == folder_of_sweep(shared, tmp_path / "out")
    assert sweep != folder_of_sweep(shared, tmp_path / "other")
    point = SharedPoint(sweep, NAME)
    sent = carried(begun(tmp_path / "sent", 2))
    first = point.begin(sent)
    assert carried(first) == sent
    begun(sweep / NAME / "aaaaaaaaaaaa", 5)
    second = point.begin(sent)
    assert second != first
    assert rounds_of(carried(second)) == 5
    point.clear()
    assert list(shared.iterdir()) == []
    with pytest.raises(UserError, match=r"--shared-dir: .*gone is not a folder on this worker"):
        SharedPoint(tmp_path / "gone" / "sweep", NAME).begin({})


# Temporary folders


def test_a_temporary_folder_is_removed_and_an_abandoned_one_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    child = os.fork()
    if not child:  # a process that is killed together with its worker
        with temporary_folder() as folder:
            (folder / NAME).mkdir()
            (folder / NAME / "trace.h5").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (abandoned,) = tmp_path.iterdir()
    (tmp_path / f"{PREFIX}of-somebody").mkdir()
    used = tmp_path / f"{PREFIX}used"
    with locked(used / ".lock", "busy"), temporary_folder() as folder:
        assert not abandoned.exists()
        assert folder.is_dir()
        assert used.is_dir()
    assert {one.name for one in tmp_path.iterdir()} == {f"{PREFIX}of-somebody", f"{PREFIX}used"}


def test_nothing_but_runs_is_removed_from_a_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}x").mkdir()
    (tmp_path / f"{PREFIX}x" / "mine").touch()
    assert not remove(tmp_path / f"{PREFIX}x")
    assert (tmp_path / f"{PREFIX}x" / "mine").exists()


# Waits


class Clients:
    """Dask's clients of a scheduler that is there or not, with workers that come after some looks."""

    def __init__(self, answers: list[bool], looks: int = 0) -> None:
        self.answers, self.looks, self.status = answers, looks, "running"

    def __call__(self, *_: Any, **__: Any) -> Clients:
        if not self.answers.pop(0):
            raise OSError("refused")
        self.status = "running"
        return self

    def scheduler_info(self, **_: Any) -> Any:
        self.looks -= 1
        return {"workers": {} if self.looks >= 0 else {"a": {}}}

    def close(self, **_: Any) -> None: ...


def connected(monkeypatch: pytest.MonkeyPatch, clients: Clients, patience: Patience) -> Connection:
    distributed = pytest.importorskip("distributed")
    now = [0.0]
    monkeypatch.setattr(distributed, "Client", clients)
    clock = Namespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(connection, "time", clock)
    monkeypatch.setattr(connection, "gc", Namespace(collect=lambda: None))  # which takes longer than all else here
    return Connection("tcp://127.0.0.1:1", patience)


def test_a_worker_is_waited_for_with_a_line_from_time_to_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = connected(monkeypatch, Clients([True], looks=200), Patience(worker_wait_s=7200))
    one.wait_for_a_worker()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2  # 100 s
    assert lines[0].endswith("--nthreads 1` (10 s of at most 2 h 0 min)")
    assert lines[1].endswith("(1 min 10 s of at most 2 h 0 min)")


def test_a_worker_that_does_not_come_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (UserError, MachineError):
        one = connected(monkeypatch, Clients([True], looks=10**6), Patience(worker_wait_s=60))
        with pytest.raises(kind, match=r"has no workers after 1 min 0 s; start some .* with --worker-wait-s") as told:
            one.wait_for_a_worker(kind)
        assert "\n" not in str(told.value)


def test_a_scheduler_that_is_lost_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = Clients([True, *[False] * 30, True])
    one = connected(monkeypatch, clients, Patience(scheduler_wait_s=60))
    assert not one.reach()
    clients.status = "connecting"
    assert one.reach()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("is lost; waiting for it to come back (10 s of at most 1 min 0 s)")
    clients.status, clients.answers = "closed", [False] * 1000
    with pytest.raises(MachineError, match="was lost and did not come back within 1 min 0 s; run the same command"):
        one.reach()


# What is refused


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (Place(patience=Patience(retries=-1)), "--retries: must be at least 0, got -1"),
        (Place(patience=Patience(worker_wait_s=-1.0)), "--worker-wait-s: must be a number of seconds of at least 0"),
        (Place(patience=Patience(scheduler_wait_s=float("nan"))), "--scheduler-wait-s: must be a number of seconds"),
        (Place(shared_dir=Path("x")), "--shared-dir: is for the workers of a cluster; give --cluster too, or omit it"),
    ],
)
def test_bad_patience_is_refused(place: Place, line: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as told:
        check_points([], tmp_path, place)
    assert str(told.value).startswith(line)


def test_arguments_of_a_sweep_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"retries must be an integer of at least 0, got 0\.5"):
        airfl.sweep(small_settings(), out=tmp_path, retries=0.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="worker_wait_s must be a number of seconds, got 'long'"):
        airfl.sweep(small_settings(), out=tmp_path, worker_wait_s="long")  # type: ignore[arg-type]
