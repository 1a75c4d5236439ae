"""Reads and writes the files of a checkpoint folder, and checks that airfl wrote them and that they are intact.

A folder was made by airfl if its lock contains the marker of locks, or a file in it begins as packs do (early versions
wrote empty locks). It contains only regular files of the names below. Anything else is refused, and never removed.
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

from airfl.core.checkpoint.fingerprint import RunFingerprint
from airfl.core.checkpoint.records import RECORDS_NAME, read_records
from airfl.core.checkpoint.serialisation import MAGIC, DamagedCheckpointError, deserialise, serialise
from airfl.errors import UserError
from airfl.storage.atomic_io import write_atomically
from airfl.storage.lock import is_lock, may_be_lock
from airfl.storage.output_files import CHECKPOINT_NAME
from airfl.storage.own_files import both_ends, check_no_link, is_file, is_folder, not_own, remove_files

log = logging.getLogger(__name__)

ABOUT_NAME, STATE_PREFIX, LOCK_NAME = "about", "state-", "lock"
OWN_NAMES = re.compile(
    rf"{LOCK_NAME}|{ABOUT_NAME}|{RECORDS_NAME}|{STATE_PREFIX}\d{{8,}}|"
    rf"\.({ABOUT_NAME}|{STATE_PREFIX}\d{{8,}})(\.[0-9a-f]+)+"  # while they are written
)
KEPT = 2
"""Number of states that are kept: an older one is used if the newest is damaged."""


@dataclass(frozen=True)
class Saved:
    """A saved run.

    Attributes:
        fingerprint: Metadata of the run.
        rounds: Number of finished rounds.
        arrays: State after them, by name; None before the first state was saved.
        length: Length of the records of these rounds in bytes.
    """

    fingerprint: RunFingerprint
    rounds: int = 0
    arrays: dict[str, NDArray[Any]] | None = None
    length: int = 0


def read_saved(out: Path) -> Saved | None:
    """Return the last intact state of the run in OUT.

    Returns the start of the run if no state was saved yet, and None if the run has not begun. Raises UserError if
    everything is damaged.
    """
    folder = out / CHECKPOINT_NAME
    states = sorted(folder.glob(f"{STATE_PREFIX}*"), reverse=True)
    damaged = []
    for path in states:
        try:
            saved = _read_state(path)
            _check_records(folder, saved)
        except (DamagedCheckpointError, OSError) as error:
            damaged.append(f"{path}: {_reason(error)}")
            continue
        for line in damaged:
            log.warning("%s; using an older state of the run", line)
        return saved
    if damaged:
        raise UserError(f"{damaged[0]}; no older state of its run is intact; start again with another --out")
    path = folder / ABOUT_NAME
    if not path.exists():
        return None
    try:
        return Saved(_fingerprint(_read(path)[0]))
    except (DamagedCheckpointError, OSError) as error:
        raise UserError(f"{path}: {_reason(error)}; start again with another --out") from None


def read_fingerprint(out: Path) -> RunFingerprint | None:
    """Return the metadata of the unfinished run in OUT, or None if there is none.

    Nothing else of the checkpoint is read. Raises UserError if the metadata is damaged.
    """
    path = out / CHECKPOINT_NAME / ABOUT_NAME
    try:
        return _fingerprint(_read(path)[0])
    except FileNotFoundError:
        return None
    except (DamagedCheckpointError, OSError) as error:
        raise UserError(f"{path}: {_reason(error)}") from None


def check_own(out: Path) -> None:
    """Raise UserError if OUT/checkpoint is a link, was not made by airfl, or contains links or foreign files."""
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
    """Whether the contents of the folder show that airfl made it, or it is empty."""
    names = os.listdir(folder)
    if is_lock(folder / LOCK_NAME) or not names:
        return True
    if names == [LOCK_NAME]:
        return may_be_lock(folder / LOCK_NAME)  # the process was killed between creating the lock and marking it
    return any(_is_pack(folder / name) for name in names if name != LOCK_NAME and is_own_name(name))


def _is_pack(path: Path) -> bool:
    with contextlib.suppress(OSError, UserError):
        return both_ends(path).startswith(MAGIC)
    return False


def tidy(out: Path, saved: Saved) -> None:
    """Remove temporary files of a process that was killed while writing, and states of rounds that are repeated."""
    latest = f"{STATE_PREFIX}{saved.rounds:08d}"
    remove_files(
        out / CHECKPOINT_NAME,
        lambda name: is_own_name(name) and (name[0] == "." or (name.startswith(STATE_PREFIX) and name > latest)),
    )


def has_state(out: Path) -> bool:
    """Whether there is a saved state to resume from."""
    return any((out / CHECKPOINT_NAME).glob(f"{STATE_PREFIX}*"))


def has_begun(out: Path) -> bool:
    """Whether there is an unfinished run."""
    return (out / CHECKPOINT_NAME / ABOUT_NAME).exists() or has_state(out)


def write_fingerprint(out: Path, fingerprint: RunFingerprint) -> None:
    """Write the metadata of the run, before its first round."""
    write_atomically(out / CHECKPOINT_NAME / ABOUT_NAME, lambda file: serialise(file, fingerprint.plain(), {}))


def write_state(out: Path, saved: Saved) -> None:
    """Write a state, keep the one before it, and remove older ones."""
    folder = out / CHECKPOINT_NAME
    value = {"about": saved.fingerprint.plain(), "rounds": saved.rounds, "length": saved.length}
    path = folder / f"{STATE_PREFIX}{saved.rounds:08d}"
    write_atomically(path, lambda file: serialise(file, value, saved.arrays or {}))
    older = sorted(path.name for path in folder.glob(f"{STATE_PREFIX}*"))[:-KEPT]
    remove_files(folder, lambda name: name in older and is_own_name(name))


def discard(out: Path) -> None:
    """Remove the checkpoint of a run that has ended.

    The lock is removed last, because without it another process may write there. Files that are not airfl's stay, and
    then the folder does, too.
    """
    folder = out / CHECKPOINT_NAME
    with contextlib.suppress(OSError):
        if is_folder(folder) and _is_marked(folder):
            remove_files(folder, is_own_name, last=LOCK_NAME)
            folder.rmdir()


def _read(path: Path) -> tuple[Any, dict[str, NDArray[np.generic]]]:
    with path.open("rb") as file:
        value, arrays, length = deserialise(file, path.stat().st_size)
    if length != path.stat().st_size:
        raise DamagedCheckpointError("has extra data at its end")
    return value, arrays


def _check_records(folder: Path, saved: Saved) -> None:
    """Raise DamagedCheckpointError unless there is an intact record of every round."""
    if sum(1 for _ in read_records(folder / RECORDS_NAME, saved.length)) != saved.rounds:
        raise DamagedCheckpointError("does not match the records in the same folder")


def _read_state(path: Path) -> Saved:
    value, arrays = _read(path)
    try:
        fingerprint, rounds, length = value["about"], value["rounds"], value["length"]
    except (TypeError, KeyError):
        raise DamagedCheckpointError("is not a state of a run") from None
    if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in (rounds, length)):
        raise DamagedCheckpointError("is not a state of a run")
    if path.name != f"{STATE_PREFIX}{rounds:08d}":
        raise DamagedCheckpointError(f"is the state of round {rounds}")
    return Saved(_fingerprint(fingerprint), rounds, arrays, length)


def _fingerprint(value: Any) -> RunFingerprint:
    try:
        fingerprint = RunFingerprint(**value)
    except TypeError:
        raise DamagedCheckpointError("has no valid metadata of its run") from None
    if not fingerprint.is_one():
        raise DamagedCheckpointError("has no valid metadata of its run")
    return fingerprint


def _reason(error: DamagedCheckpointError | OSError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
