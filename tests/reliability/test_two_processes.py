"""Of two processes that write to one folder, one succeeds and the other is refused without disturbing it."""

import fcntl
import itertools
import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from airfl import simulation
from airfl.core.checkpoint import discard
from airfl.errors import MachineError, UserError
from airfl.storage.lock import locked
from tests.processes import Parent
from tests.reliability.finished import finish, is_complete, rows, settings
from tests.reliability.scale import FULL, Measured, cases
from tests.reliability.test_kills import SHORT, STEPS, begun


def test_the_second_is_refused(parent: Parent, tmp_path: Path) -> None:
    """A fresh run and one that goes on with what it takes for interrupted; of a fresh first and of a resumed one."""
    out = tmp_path / "out"
    first = begun(parent, out, *STEPS)
    first.send(signal.SIGSTOP)  # it shall not be done before the others ask
    fresh, resumed = parent.run(out, *STEPS), parent.run(out, *STEPS, "--resume")
    assert f"{out}: contains an unfinished run" in fresh.refused(2)
    assert f"{out}: another process is writing its run; wait for it" in resumed.refused(2)
    first.send(signal.SIGKILL)
    first.wait()
    again = parent.run(out, *STEPS, "--resume")
    again.until(lambda: "round 1/" in again.stderr)
    again.send(signal.SIGSTOP)
    assert f"{out}: another process is writing its run" in parent.run(out, *STEPS, "--resume").refused(2)
    again.send(signal.SIGCONT)
    assert again.wait() == 0, again.stderr
    assert is_complete(out)
    finish(out, *STEPS)


def test_started_at_the_same_instant(parent: Parent, tmp_path: Path, measured: Measured) -> None:
    """Fresh, or with a run to go on with; in full also where --resume finds none."""
    tries = cases(1, 15)
    begin, go_on, resume_nothing = ((), 0), (("--resume",), 1), (("--resume",), 0)
    ways = (begin, go_on, resume_nothing) if FULL else (begin, go_on)
    for number, (how, before) in itertools.product(range(tries), ways):
        out = tmp_path / f"{number}-{len(how)}-{before}"
        if before:
            begun(parent, out, *STEPS).send(signal.SIGKILL)
        children = [parent.run(out, *STEPS, *how) for _ in range(2)]
        for child in children:
            child.wait()
        other, winner = sorted(children, key=lambda child: "done in" in child.stderr)
        assert "done in" in winner.stderr
        assert "done in" not in other.stderr
        assert winner.wait() == 0
        if other.wait() or not how:
            assert str(out) in other.refused(2)
        else:
            assert "already complete" in other.stderr  # it came when the first had ended
        finish(out, *STEPS)
        assert [file.name for file in out.iterdir()] == ["trace.h5"]
    measured(f"two processes: {len(ways) * tries} times started at the same instant: one ran, undisturbed")


def test_a_lock_whose_file_was_removed_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that had it removes it, with its folder, between another's open and its flock."""
    path, real, times = tmp_path / "checkpoint" / "lock", fcntl.flock, []

    def removed_before(file: object, how: int) -> None:
        if not times:
            path.unlink()
            path.parent.rmdir()
        times.append(how)
        real(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", removed_before)
    with locked(path, "busy"):
        assert len(times) == 2
        assert path.exists()
        with pytest.raises(UserError, match="busy"), locked(path, "busy"):
            pass


def test_a_lock_on_a_full_disk_is_the_machine_s_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=OSError(28, "No space left on device")))
    full = pytest.raises(MachineError, match=r"cannot be written to \(No space left on device\)")
    with full, locked(tmp_path / "a" / "lock", "busy"):
        pass


def test_a_run_that_ended_while_another_was_about_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both found nothing in the folder; the first has written its trace, and removed its lock, before the second's."""
    real = simulation.resolve

    def late(*given: Any) -> object:
        monkeypatch.setattr(simulation, "resolve", real)
        simulation.run(settings(*SHORT), tmp_path, data=rows())
        return real(*given)

    monkeypatch.setattr(simulation, "resolve", late)
    with pytest.raises(UserError, match=r"already contains a run \(trace\.h5\); choose another --out"):
        simulation.run(settings(*SHORT), tmp_path, data=rows())
    finish(tmp_path, *SHORT)
    assert [file.name for file in tmp_path.iterdir()] == ["trace.h5"]


def test_the_lock_is_removed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes in when it has gone has the folder for itself. What is not airfl's stays."""
    folder, removed, real = tmp_path / "checkpoint", [], os.unlink

    def unlink(name: str, **where: int) -> None:
        removed.append(name)
        real(name, **where)

    with locked(folder / "lock", "busy"):
        for name in ("about", "records", "state-00000001", ".state-00000002.99", "zzz"):
            (folder / name).touch()
        monkeypatch.setattr(os, "unlink", unlink)
        discard(tmp_path)
    assert removed == [".state-00000002.99", "about", "records", "state-00000001", "lock"]
    assert [file.name for file in folder.iterdir()] == ["zzz"]
