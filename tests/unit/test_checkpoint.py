"""When a checkpoint is saved, what it contains, and the order in which it is written to disk."""

import os
from pathlib import Path

import numpy as np
import pytest

from airfl.core.checkpoint import Cadence, RunFingerprint, Saved, checkpointing, read_saved
from airfl.storage.atomic_io import write_atomically

ABOUT = RunFingerprint(settings="{}", versions={}, device="cpu", chosen={}, data=0, created_utc="")
EVERY = [*range(1, 13)]


def saved_after(out: Path, cadence: Cadence, round_s: float, rounds: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds after which a run whose rounds take so long is saved."""
    now, found = [0.0], []
    monkeypatch.setattr("airfl.core.checkpoint.writer.time.monotonic", lambda: now[0])
    (out / "checkpoint").mkdir(parents=True)
    with checkpointing(out, Saved(ABOUT), cadence) as keeper:
        for done in range(1, rounds + 1):
            now[0] += round_s
            keeper.append({"energy_j": 1.0})
            keeper.save_if_due(lambda done=done: found.append(done) or {"parameters": np.zeros(3)})
    return found


@pytest.mark.parametrize(
    ("seconds", "every", "round_s", "expected"),
    [
        (30.0, 0, 7.0, [4, 8, 12]),  # after 28 s: a fifth round would end after 35
        (30.0, 0, 15.0, EVERY),  # two would be 30 s, which may not all be lost
        (30.0, 0, 100.0, EVERY),
        (0.0, 5, 100.0, [5, 10]),
        (30.0, 5, 7.0, [4, 8, 12]),
        (30.0, 3, 7.0, [3, 6, 9, 12]),
        (0.0, 0, 100.0, []),
    ],
)
def test_no_more_than_so_many_seconds_or_rounds_are_lost(
    seconds: float, every: int, round_s: float, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved_after(tmp_path, Cadence(seconds, every), round_s, 12, monkeypatch) == expected


def test_the_last_two_states_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_after(tmp_path, Cadence(0.0, 1), 1.0, 12, monkeypatch)
    states = sorted(path.name for path in (tmp_path / "checkpoint").glob("state-*"))
    assert states == ["state-00000011", "state-00000012"]
    assert read_saved(tmp_path).rounds == 12


def test_a_file_takes_its_place_when_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        sync(descriptor)

    def replaced(self: Path, target: Path) -> Path:
        done.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_atomically(tmp_path / "state", lambda file: file.write(b"whole"))
    assert done == [f"sync .state.{os.getpid()}", "replace", f"sync {tmp_path.name}"]
    assert (tmp_path / "state").read_bytes() == b"whole"
