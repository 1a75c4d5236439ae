"""Claims of points: one process has each, it ends when it is not renewed, and clocks of machines do not matter."""

import errno
import json
import os
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from airfl.errors import MachineError, UserError
from airfl.storage.claim import EXPIRY_S, MARKER, Claim, look, take_away, time_of
from tests.reliability.refusals import refusal


def aged(path: Path, seconds: float) -> None:
    """Set the time of the last renewal back from the time of the file system."""
    now = time_of(path.parent)
    assert now is not None
    os.utime(path, ns=(now, now - int(seconds * 1e9)))


def of_another_machine(path: Path) -> None:
    about = json.loads(path.read_bytes()[len(MARKER) :])
    about["holder"]["host"] = ["node-7", "x", "y"]
    path.write_bytes(MARKER + json.dumps(about).encode())


def claimed(path: Path) -> Claim:
    claim = Claim.take(path, "ratio 0.1", "all points")
    assert claim is not None
    return claim


def has_ended(path: Path) -> bool:
    seen, now = look(path), time_of(path.parent)
    assert seen is not None
    assert now is not None
    return seen.has_ended(now)


def test_one_process_has_it_until_it_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "a.claim"
    assert look(path) is None
    claim = claimed(path)
    assert Claim.take(path, "other") is None
    seen = look(path)
    assert seen is not None
    assert (seen.what, seen.work, seen.runs_here) == ("ratio 0.1", "all points", True)
    assert seen.owner == f"process {os.getpid()} of {os.uname().nodename}"
    claim.release()
    assert list(tmp_path.iterdir()) == []
    assert claim.renew() is None
    claimed(path)


def test_it_ends_when_it_is_not_renewed(tmp_path: Path) -> None:
    """By the times of the file system, also if this machine's clock is a day ahead of the file server's or behind."""
    path = tmp_path / "a.claim"
    claim = claimed(path)
    of_another_machine(path)
    assert not has_ended(path)
    aged(path, EXPIRY_S - 5)
    assert not has_ended(path)
    aged(path, EXPIRY_S + 5)
    assert has_ended(path)
    before = path.stat().st_mtime_ns
    assert claim.renew() == path.stat().st_mtime_ns > before
    assert not has_ended(path)


def test_the_clock_of_this_machine_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.claim"
    claimed(path)
    of_another_machine(path)
    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, lambda: 4e18)
    assert not has_ended(path)


def test_it_ends_with_a_process_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "a.claim"
    if not (child := os.fork()):
        Claim.take(path, "ratio 0.1")
        os._exit(0)
    os.waitpid(child, 0)
    assert has_ended(path)


def test_what_is_not_written_whole_ends_too(tmp_path: Path) -> None:
    path = tmp_path / "a.claim"
    for content in (b"", MARKER[:5], MARKER, MARKER + b'{"token": "x"', MARKER + b'{"token": 1}'):
        path.write_bytes(content)
        seen = look(path)
        assert seen is not None
        assert (seen.token, seen.holder, seen.owner) == ("", None, "an unknown process")
        assert not has_ended(path)
        aged(path, EXPIRY_S + 5)
        assert has_ended(path)


def test_only_claims_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.claim"
    path.write_text("mine")
    refusal(lambda: look(path), "not written by airfl")
    path.unlink()
    path.symlink_to(tmp_path / "b")
    with pytest.raises(UserError, match="is a link"):
        look(path)


def test_one_that_was_renewed_or_replaced_meanwhile_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "a.claim"
    first = claimed(path)
    aged(path, EXPIRY_S + 5)
    seen = look(path)
    assert seen is not None
    first.renew()
    assert not take_away(path, seen)
    assert first.renew() is not None
    first.release()
    second = claimed(path)
    assert not take_away(path, seen)
    assert second.renew() is not None
    first.release()  # is no longer its own
    assert second.renew() is not None
    seen = look(path)
    assert seen is not None
    assert take_away(path, seen)
    assert not take_away(path, seen)
    assert second.renew() is None
    assert list(tmp_path.iterdir()) == []


def test_of_several_that_find_it_ended_one_has_it(tmp_path: Path) -> None:
    """Each looks at the same claim, then takes it away and claims the point, all at once."""
    path, several = tmp_path / "a.claim", 4
    for _ in range(25):
        claimed(path)
        of_another_machine(path)
        aged(path, EXPIRY_S + 5)
        barrier, won = threading.Barrier(several), []

        def steal(barrier: threading.Barrier = barrier, won: list[Claim] = won) -> None:
            seen = look(path)
            assert seen is not None
            barrier.wait()
            take_away(path, seen)
            if claim := Claim.take(path, "stolen"):
                won.append(claim)

        threads = [threading.Thread(target=steal) for _ in range(several)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = [claim for claim in won if claim.renew() is not None]
        assert len(kept) == 1
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        kept[0].release()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.claim"
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(number, "no links here")))
    test_one_that_was_renewed_or_replaced_meanwhile_is_put_back(tmp_path)
    claim = claimed(path)
    assert Claim.take(path, "other") is None
    claim.release()
    assert list(tmp_path.iterdir()) == []


def test_a_call_that_nfs_has_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer was lost, and the second one is that the file exists: it is this process's own."""
    real = os.link

    def twice(*names: Path) -> None:
        real(*names)
        real(*names)

    monkeypatch.setattr(os, "link", twice)
    claim = claimed(tmp_path / "a.claim")
    assert claim.renew() is not None
    assert Claim.take(claim.path, "other") is None


def test_a_full_disk_and_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        Claim.take(tmp_path / "gone" / "a.claim", "x")
    assert time_of(tmp_path / "gone") is None
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(MachineError, match=r"cannot be written to \(No space left on device\)"):
        Claim.take(tmp_path / "a.claim", "x")
    assert list(tmp_path.iterdir()) == []
