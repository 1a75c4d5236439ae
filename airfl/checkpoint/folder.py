"""The files of a checkpoint folder: what is there, what of it is whole, and whether it is airfl's.

It is where its lock holds the lock's marker, or a file in it begins as packs do (before there was a marker, locks were
empty). Nothing is in it but regular files of the names below: anything else is refused, and never removed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.checkpoint.about import About
from airfl.checkpoint.pack import MAGIC, DamagedError, read_pack, write_pack
from airfl.checkpoint.records import RECORDS_NAME, read_records
from airfl.errors import UserError
from airfl.lock import is_lock, may_be_lock
from airfl.output import CHECKPOINT_NAME
from airfl.own import both_ends, check_no_link, is_file, is_folder, not_own, remove_files
from airfl.synced import write_synced

log = logging.getLogger(__name__)

ABOUT_NAME, STATE_PREFIX, LOCK_NAME = "about", "state-", "lock"
OWN_NAMES = re.compile(
    rf"{LOCK_NAME}|{ABOUT_NAME}|{RECORDS_NAME}|{STATE_PREFIX}\d{{8,}}|"
    rf"\.({ABOUT_NAME}|{STATE_PREFIX}\d{{8,}})(\.[0-9a-f]+)+"  # while they are written
)
KEPT = 2
"""States that are kept: an older one for when the newest is damaged."""


@dataclass(frozen=True)
class Saved:
    """A run as it was saved.

    Attributes:
        about: What the run is.
        rounds: Rounds that are done.
        arrays: State after them by name; None where the run has only begun.
        length: Length of the records of these rounds in bytes.
    """

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


def check_own(out: Path) -> None:
    """UserError where OUT/checkpoint is a link, is not airfl's, or holds a link or something else than airfl's."""
    folder = out / CHECKPOINT_NAME
    check_no_link(folder)
    if not os.path.lexists(folder):
        return
    if not is_folder(folder):
        raise not_own(folder)
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror}); choose another --out") from None
    for path in paths:
        check_no_link(path)
        if os.path.lexists(path) and not (is_own_name(path.name) and is_file(path)):
            raise not_own(path)
    if not _is_marked(folder):
        raise not_own(folder)


def is_own_name(name: str) -> bool:
    """Whether a file in a checkpoint folder can have this name."""
    return OWN_NAMES.fullmatch(name) is not None


def _is_marked(folder: Path) -> bool:
    """Whether airfl has made the folder, by what is in it; an empty one is as good."""
    names = os.listdir(folder)
    if is_lock(folder / LOCK_NAME) or not names:
        return True
    if names == [LOCK_NAME]:
        return may_be_lock(folder / LOCK_NAME)  # killed between making it and marking it
    return any(_is_pack(folder / name) for name in names if name != LOCK_NAME and is_own_name(name))


def _is_pack(path: Path) -> bool:
    with contextlib.suppress(OSError, UserError):
        return both_ends(path).startswith(MAGIC)
    return False


def tidy(out: Path, saved: Saved) -> None:
    """Remove what a process has left that was killed while it wrote, and states of rounds that are done again."""
    latest = f"{STATE_PREFIX}{saved.rounds:08d}"
    remove_files(
        out / CHECKPOINT_NAME,
        lambda name: is_own_name(name) and (name[0] == "." or (name.startswith(STATE_PREFIX) and name > latest)),
    )


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
    older = sorted(path.name for path in folder.glob(f"{STATE_PREFIX}*"))[:-KEPT]
    remove_files(folder, lambda name: name in older and is_own_name(name))


def discard(out: Path) -> None:
    """A run that has ended needs none of it. The lock goes last: without it another process may write there.

    What is not airfl's stays, and the folder with it.
    """
    folder = out / CHECKPOINT_NAME
    with contextlib.suppress(OSError):
        if is_folder(folder) and _is_marked(folder):
            remove_files(folder, is_own_name, last=LOCK_NAME)
            folder.rmdir()


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


def _reason(error: DamagedError | OSError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
