"""The files of a checkpoint folder: what is there, what of it is whole."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.checkpoint.about import About
from airfl.checkpoint.pack import DamagedError, read_pack, write_pack
from airfl.checkpoint.records import read_records
from airfl.errors import UserError
from airfl.output import CHECKPOINT_NAME
from airfl.synced import write_synced

log = logging.getLogger(__name__)

ABOUT_NAME, RECORDS_NAME, STATE_PREFIX = "about", "records", "state-"
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
    for path in states:
        with _damage_said(path, "an older state of the run is taken"):
            value, arrays = _read(path)
            saved = Saved(About(**value["about"]), int(value["rounds"]), arrays, int(value["length"]))
            _check_records(folder, saved)
            return saved
    if states:
        raise UserError(f"{folder}: all its states are damaged; choose another --out and begin anew")
    if not (folder / ABOUT_NAME).exists():
        return None
    try:
        return Saved(About(**_read(folder / ABOUT_NAME)[0]))
    except (DamagedError, OSError) as error:
        raise UserError(f"{folder / ABOUT_NAME}: {error}; choose another --out and begin anew") from None


def has_state(out: Path) -> bool:
    """Whether there is something to go on from."""
    return any((out / CHECKPOINT_NAME).glob(f"{STATE_PREFIX}*"))


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
        old.unlink(missing_ok=True)


def discard(out: Path) -> None:
    """A run that has ended needs none of it."""
    shutil.rmtree(out / CHECKPOINT_NAME, ignore_errors=True)


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


@contextlib.contextmanager
def _damage_said(path: Path, instead: str) -> Iterator[None]:
    try:
        yield
    except (DamagedError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        log.warning("%s: %s; %s", path, reason, instead)
