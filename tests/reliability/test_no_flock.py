"""File systems without `flock`: how folders are protected, and messages about stale locks."""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from airfl.analysis.results.sweep_folder import exclusive, open_folder
from airfl.core.record import KeptRecord
from airfl.errors import MachineError, UserError
from airfl.storage import lock
from airfl.storage.lock import Holder, locked
from airfl.study.sweeps.attempt import attempt, clear_attempts
from airfl.study.sweeps.job import Job
from tests.conftest import small_settings
from tests.reliability.finished import begin, finish
from tests.reliability.refusals import refusal
from tests.reliability.test_kills import SHORT
from tests.resuming import interrupted
from tests.small_data import OF_PEOPLE


def failing(number: int) -> Mock:
    return Mock(side_effect=OSError(number, os.strerror(number)))


@pytest.fixture
def no_flock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", failing(getattr(request, "param", errno.ENOSYS)))


MARK = lock.MARKER.decode()


def refused(path: Path) -> str:
    """The line that says why the lock is not to be had."""
    with contextlib.ExitStack() as stack:
        return refusal(lambda: stack.enter_context(locked(path, "busy")))


@pytest.mark.parametrize("no_flock", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL], indirect=True)
@pytest.mark.usefixtures("no_flock")
def test_one_process_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint" / "lock"
    for _ in range(2):
        with locked(path, "busy"):
            assert refused(path) == "busy"
            holder = Holder.read(path.read_text().removeprefix(MARK))
            assert holder is not None
            assert holder.pid == os.getpid()
        assert not path.exists()
    with pytest.raises(KeyboardInterrupt), locked(path, "busy"):
        raise KeyboardInterrupt
    assert not path.exists()


@pytest.mark.usefixtures("no_flock")
def test_a_run_is_run_and_gone_on_with(tmp_path: Path) -> None:
    out = begin(tmp_path, *SHORT, after=2)
    finish(out, *SHORT)
    assert [file.name for file in out.iterdir()] == ["trace.h5"]


@pytest.mark.usefixtures("no_flock")
def test_a_sweep_has_its_folder_alone(tmp_path: Path) -> None:
    with exclusive(tmp_path), pytest.raises(UserError, match="another process is writing into it"), exclusive(tmp_path):
        pass
    assert not open_folder(tmp_path).entries


def test_a_point_whose_process_was_killed_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that process, of this machine, has left its lock. One of a process that runs is left as it is."""
    name, told = "0" * 12, list[tuple[int, bool]]()
    job = Job(name, small_settings(*OF_PEOPLE, "run.rounds=4", "run.checkpoint_every=1"))
    with pytest.raises(KeyboardInterrupt):
        attempt(job, tmp_path / name, after_a_round=interrupted(3))
    left = tmp_path / name / "checkpoint" / "lock"
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOSYS))
    for holder in (Holder.this(), dataclasses.replace(Holder.this(), start=1)):
        left.write_bytes(lock.MARKER + json.dumps(dataclasses.asdict(holder)).encode())
        clear_attempts(tmp_path, {name})
        assert left.exists() == holder.runs
    attempt(job, tmp_path / name, after_a_round=lambda done, of, one: told.append((done, isinstance(one, KeptRecord))))
    assert told == [(1, True), (2, True), (3, True), (4, False)]


@pytest.mark.usefixtures("no_flock")
def test_a_lock_that_was_left_behind_is_told_with_the_mend(tmp_path: Path) -> None:
    """By a process that was killed; by one whose number another process has now; on another machine; by nobody."""
    path = tmp_path / "lock"
    code = (
        "import fcntl, os, sys, pathlib\n"
        "def refuse(file, how): raise OSError(38, 'no')\n"
        "fcntl.flock = refuse\n"
        "from airfl.storage.lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1]), 'busy'): os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, cwd=Path(lock.__file__).parents[2])
    assert done.returncode == 9
    left = json.loads(path.read_text().removeprefix(MARK))
    assert f"process {left['pid']} of {left['host'][0]} has the lock since" in refused(path)
    assert "but that process has ended; delete the file" in refused(path)
    path.write_text(MARK + json.dumps({**left, "pid": os.getpid()}))
    assert "but that process has ended; delete the file" in refused(path)
    path.write_text(MARK + json.dumps({**left, "host": ["node-7", "x", "y"]}))
    assert "of node-7 has the lock" in refused(path)
    assert "if it has ended, delete the file" in refused(path)
    for text, line in ((MARK + '{"not": "ours"}', "is not a lock file of airfl"), ("ÿ" * 10, "not written by airfl")):
        path.write_text(text, "latin-1")
        assert line in refused(path)
    path.write_text("")
    os.utime(path, (0, 0))
    assert "already exists, and this file system has no locks" in refused(path)
    path.unlink()
    with locked(path, "busy"):
        pass


@pytest.mark.usefixtures("no_flock")
def test_who_made_it_and_has_not_said_so_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    path.touch()
    text = MARK + json.dumps(vars(Holder.this()))
    monkeypatch.setattr("airfl.storage.lock.time.sleep", lambda _: path.write_text(text))
    assert refused(path) == "busy"


def test_where_one_machine_has_flock_and_another_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "lock", fcntl.flock
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOSYS))
    with locked(path, "busy"):
        monkeypatch.setattr(fcntl, "flock", real)
        assert refused(path) == "busy"
    with locked(path, "busy"):
        assert path.read_text() == MARK
        monkeypatch.setattr(fcntl, "flock", failing(errno.ENOSYS))
        monkeypatch.setattr(lock, "SECONDS_TO_SAY_WHO", 0.0)
        assert "already exists" in refused(path)


def test_another_fault_is_not_taken_for_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", failing(errno.EIO))
    with pytest.raises(MachineError, match=r"cannot be locked \(Input/output error\)"), locked(tmp_path / "l", "busy"):
        pass
