"""The files of a checkpoint folder: what is there, what of it is whole."""

from __future__ import annotations

import contextlib
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.checkpoint.about import About
from airfl.checkpoint.pack import DamagedError, read_pack, write_pack
from airfl.checkpoint.records import RECORDS_NAME, read_records
from airfl.errors import UserError
from airfl.output import CHECKPOINT_NAME
from airfl.synced import write_synced

log = logging.getLogger(__name__)

ABOUT_NAME, STATE_PREFIX, LOCK_NAME = "about", "state-", "lock"
KEPT = 2
"""States that are kept: an older one for when the newest is damaged."""


@dataclass(frozen=True)
class Saved:
    """A run as it was saved. rounds: that are done; arrays: the state after them; length: of their records, bytes."""

    about: About
    rounds: int = 0
    arrays: dict[str, NDArray[Any]] | None = None
    length: int = 0


def read_saved(out: Path) -> Saved | None:
    """The last state of the run in OUT that is whole, the run's start where there is none yet, None where it has not
    even begun. UserError where everything is damaged."""
    folder = out / CHECKPOINT_NAME
    states = sorted(folder.glob(f"{STATE_PREFIX}*"), reverse=True)
    damaged = []
    for path in states:
        try:
            saved = _read_state(path)
            _check_records(folder, saved)
        except (DamagedError, OSError) as error:
            damaged.append(f"{path}: {_reason(error)}")
            continue
        for line in damaged:
            log.warning("%s; an older state of the run is taken", line)
        return saved
    if damaged:
        raise UserError(f"{damaged[0]}; no older state of its run is whole; choose another --out and begin anew")
    path = folder / ABOUT_NAME
    if not path.exists():
        return None
    try:
        return Saved(_about(_read(path)[0]))
    except (DamagedError, OSError) as error:
        raise UserError(f"{path}: {_reason(error)}; choose another --out and begin anew") from None


def tidy(out: Path, saved: Saved) -> None:
    """Remove what a process has left that was killed while it wrote, and states of rounds that are done again."""
    folder = out / CHECKPOINT_NAME
    latest = f"{STATE_PREFIX}{saved.rounds:08d}"
    for path in folder.iterdir():
        if path.name.startswith(".") or (path.name.startswith(STATE_PREFIX) and path.name > latest):
            _remove(path)


def has_state(out: Path) -> bool:
    """Whether there is something to go on from."""
    return any((out / CHECKPOINT_NAME).glob(f"{STATE_PREFIX}*"))


def has_begun(out: Path) -> bool:
    """Whether there is a run that is not finished."""
    return (out / CHECKPOINT_NAME / ABOUT_NAME).exists() or has_state(out)


def write_about(out: Path, about: About) -> None:
    """What the run is, before its first round."""
    write_synced(out / CHECKPOINT_NAME / ABOUT_NAME, lambda file: write_pack(file, about.plain(), {}))


def write_state(out: Path, saved: Saved) -> None:
    """Put a state there, keep the one before it, forget older ones."""
    folder = out / CHECKPOINT_NAME
    value = {"about": saved.about.plain(), "rounds": saved.rounds, "length": saved.length}
    path = folder / f"{STATE_PREFIX}{saved.rounds:08d}"
    write_synced(path, lambda file: write_pack(file, value, saved.arrays or {}))
    for old in sorted(folder.glob(f"{STATE_PREFIX}*"))[:-KEPT]:
        _remove(old)


def discard(out: Path) -> None:
    """A run that has ended needs none of it. The lock goes last: without it another process may write there."""
    folder = out / CHECKPOINT_NAME
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name != LOCK_NAME:
                _remove(path)
    shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> tuple[Any, dict[str, NDArray[np.generic]]]:
    with path.open("rb") as file:
        value, arrays, length = read_pack(file, path.stat().st_size)
    if length != path.stat().st_size:
        raise DamagedError("has something behind its end")
    return value, arrays


def _check_records(folder: Path, saved: Saved) -> None:
    """DamagedError unless there is a whole record of every round."""
    if sum(1 for _ in read_records(folder / RECORDS_NAME, saved.length)) != saved.rounds:
        raise DamagedError("does not fit the records beside it")


def _read_state(path: Path) -> Saved:
    value, arrays = _read(path)
    try:
        about, rounds, length = value["about"], value["rounds"], value["length"]
    except (TypeError, KeyError):
        raise DamagedError("is no state of a run") from None
    if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in (rounds, length)):
        raise DamagedError("is no state of a run")
    if path.name != f"{STATE_PREFIX}{rounds:08d}":
        raise DamagedError(f"is the state of round {rounds}")
    return Saved(_about(about), rounds, arrays, length)


def _about(value: Any) -> About:
    try:
        about = About(**value)
    except TypeError:
        raise DamagedError("does not say what its run is") from None
    if not about.is_one():
        raise DamagedError("does not say what its run is")
    return about


def _remove(path: Path) -> None:
    """A file, or what somebody has put in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _reason(error: DamagedError | OSError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
