"""Shards: where each begins, who may share a folder with whom, and when a process has nothing left to do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airfl.analysis.results.sweep_folder import exclusive
from airfl.errors import MachineError, UserError
from airfl.storage.claim import EXPIRY_S, Claim
from airfl.storage.output_files import LOCK_NAME, SHARDS_NAME
from airfl.storage.shards import (
    check_no_shards,
    claim_of,
    read_shards,
    remove_ended,
    remove_failures,
    write_failure,
)
from airfl.study import shards
from airfl.study.rows import exclusive as exclusive_comparison
from airfl.study.shards import Shard, Sharing, shard_of, sharing
from tests.reliability.refusals import refusal
from tests.unit.test_claims import aged, of_another_machine

A, B = "a" * 12, "b" * 12


@contextmanager
def begun(root: Path, work: str = "all", shard: str = "1/2") -> Iterator[Sharing]:
    given = shard_of(shard)
    assert given is not None
    with sharing(root, given, work, lambda: None) as shared:
        yield shared


def own_claim(root: Path) -> Path:
    (path,) = (root / SHARDS_NAME).glob("process-*")
    return path


@pytest.mark.parametrize("text", ["", "a/b", "2", "1/2/3", "-1/2", "1.0/2", "1/ 2", "1234567/12345678"])
def test_what_is_no_shard(text: str) -> None:
    refusal(lambda: shard_of(text), "--shard: must be I/N, for instance 2/10 for the second of ten, got")


@pytest.mark.parametrize("text", ["0/3", "4/3", "0/0", "1/100001"])
def test_shards_that_there_are_not(text: str) -> None:
    refusal(lambda: shard_of(text), f"--shard: I/N counts from 1/N to N/N, with N at most 100,000; got {text}")


def test_parts_are_all_points_once_and_each_begins_with_its_own() -> None:
    points = list(range(11))
    parts = [Shard(index, 3).part(points) for index in (1, 2, 3)]
    assert parts == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8]]
    for index in (1, 2, 3):
        order = Shard(index, 3).order(points)
        assert sorted(order) == points
        assert order[: len(parts[index - 1])] == parts[index - 1]
    # Where their own process comes last, others come first.
    assert Shard(2, 3).order(points)[4:] == [8, 5, 2, 9, 6, 3, 0]
    assert Shard(1, 1).order(points) == points
    assert Shard(3, 20).order(points[:2]) == [1, 0] or Shard(3, 20).order(points[:2]) == [0, 1]


def test_shards_share_a_folder_and_nobody_else_may(tmp_path: Path) -> None:
    with begun(tmp_path) as first, begun(tmp_path, shard="2/2") as second:
        assert first.take(A, "one")
        assert not second.take(A, "one")
        assert second.take(B, "two")
        found = read_shards(tmp_path)
        assert {name: one.what for name, one in found.running.items()} == {A: "one", B: "two"}
        assert sorted(one.what for one in found.processes) == ["1/2", "2/2"]
        first.drop(A)
        assert second.take(A, "one")
        for alone in (exclusive(tmp_path), exclusive_comparison(tmp_path, ["row"], False)):
            with pytest.raises(UserError, match=r"process \d+ of .* writes into it with --shard ./2; give --shard"):
                alone.__enter__()
        with pytest.raises(UserError, match="writes other points into it with --shard"), begun(tmp_path, "other"):
            pass
    assert list(tmp_path.glob(".shards*")) == []
    refused = pytest.raises(UserError, match="writing into it without --shard; wait for it")
    with exclusive(tmp_path), refused, begun(tmp_path):
        pass
    assert not (tmp_path / SHARDS_NAME).exists()
    with begun(tmp_path):
        pass


def test_a_lock_of_a_file_system_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_flock(*_: object) -> None:
        raise OSError(38, "no")

    monkeypatch.setattr("airfl.storage.lock.fcntl.flock", no_flock)
    with begun(tmp_path), pytest.raises(UserError, match="give --shard too"), exclusive(tmp_path):
        pass
    assert not (tmp_path / LOCK_NAME).exists()
    with exclusive(tmp_path), pytest.raises(UserError, match="without --shard; wait for it"), begun(tmp_path):
        pass


def test_a_folder_is_not_shared_with_a_run(tmp_path: Path) -> None:
    from airfl.core.run_files import written_alone

    with begun(tmp_path), pytest.raises(UserError, match="a sweep or a comparison that several processes write"):
        written_alone(tmp_path, resume=False).__enter__()


def test_processes_that_have_ended_keep_nobody_out(tmp_path: Path) -> None:
    """Of this machine at once, of another one after a time; what they have left is removed."""
    if not (child := os.fork()):
        with begun(tmp_path) as shared:
            shared.take(A, "one")
            os._exit(0)
    os.waitpid(child, 0)
    assert [path.name for path in (tmp_path / SHARDS_NAME).iterdir() if path.suffix == ".claim"] == [f"{A}.claim"]
    check_no_shards(tmp_path)
    of_another_machine(own_claim(tmp_path))
    refusal(lambda: check_no_shards(tmp_path), "of node-7 writes into it with --shard 1/2")
    aged(own_claim(tmp_path), EXPIRY_S + 5)
    check_no_shards(tmp_path)
    with begun(tmp_path) as shared:
        assert shared.take(A, "one")
    assert not (tmp_path / SHARDS_NAME).exists()


def test_a_process_that_was_taken_for_ended_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "RENEW_S", 0.01)
    with begun(tmp_path) as shared:
        assert shared.take(A, "one")
        claim = claim_of(tmp_path, A)
        aged(claim, 50)
        before = claim.stat().st_mtime_ns
        while claim.stat().st_mtime_ns == before:
            pass  # it is renewed
        own_claim(tmp_path).unlink()
        while not shared.lost:
            pass
        with pytest.raises(MachineError, match="gave no sign of life for long"):
            shared.take(B, "two")


def test_nothing_is_left_to_do_when_others_were_seen_to_run_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim of another machine counts when it is renewed; before, its process may have been killed."""
    path, looks, then = claim_of(tmp_path, A), [], ["renewed"]

    class Wait:
        def wait(self, seconds: float) -> None:
            looks.append(seconds)
            assert len(looks) < 3, "it was told what to do"
            if then == ["renewed"]:
                claim.renew()
            elif then == ["ended"]:
                aged(path, EXPIRY_S + 5)
            elif then == ["given up"]:
                claim.release()
            else:
                finished.add(A)

    finished: set[str] = set()
    with begun(tmp_path) as shared:
        assert shared.wait([A], finished.__contains__)  # nobody has claimed it
        for then[0], may_be_taken in (("renewed", False), ("ended", True), ("given up", True), ("finished", False)):
            looks.clear()
            path.unlink(missing_ok=True)
            taken = Claim.take(path, "one")
            assert taken is not None
            claim = taken
            of_another_machine(path)
            aged(path, 30)
            monkeypatch.setattr(shared, "_over", Wait())
            assert shared.wait([A], finished.__contains__) == may_be_taken, then
            assert looks == [shards.LOOK_S]
            monkeypatch.undo()
        path.unlink()
        assert Claim.take(path, "one")
        assert not shared.wait([A, B], {B}.__contains__)  # a process of this machine that runs


def test_failures_are_kept_until_they_are_removed(tmp_path: Path) -> None:
    (tmp_path / SHARDS_NAME).mkdir()
    write_failure(tmp_path, A, "round 1: \u03b5")
    assert read_shards(tmp_path).failed == {A: "round 1: \u03b5"}
    (tmp_path / SHARDS_NAME / f"{B}.failed").write_text("{")
    assert read_shards(tmp_path).failed[B] == "the cause cannot be read"
    remove_failures(tmp_path, [A, B, "c" * 12])
    remove_ended(tmp_path)
    assert not (tmp_path / SHARDS_NAME).exists()


@pytest.mark.parametrize("name", ["notes.txt", "a", f"{A}/notes.txt", f"{A}/{B}x/trace.h5", "process-"])
def test_files_of_others_are_left_alone(name: str, tmp_path: Path) -> None:
    file = tmp_path / SHARDS_NAME / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    for use in (lambda: begun(tmp_path).__enter__(), lambda: exclusive(tmp_path).__enter__()):
        refusal(use, "not written by airfl")
    assert file.read_text() == "mine"
    assert [path for path in (tmp_path / SHARDS_NAME).rglob("*") if path.is_file()] == [file]


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / SHARDS_NAME).symlink_to(tmp_path / "elsewhere")
    refusal(lambda: begun(tmp_path).__enter__(), "is a link")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / SHARDS_NAME).unlink()
    (tmp_path / SHARDS_NAME).write_text("mine")
    refusal(lambda: begun(tmp_path).__enter__(), "not written by airfl")
