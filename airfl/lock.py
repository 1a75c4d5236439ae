"""One process at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from airfl.errors import MachineError, UserError
from airfl.own import not_own, open_own

OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
MARKER = b"airfl lock, version 1\n"
"""What a lock's file holds. Whoever was killed before it was written has left a part of it, or nothing."""


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock for the time of the block; UserError with the line `busy` where another process has it.

    The file is made if it is not there, its folder too, and stays; who holds the lock may remove both. UserError for a
    link and for a file that is no lock of airfl, which stays as it is; MachineError where the disk is full.
    """
    while True:
        with _opened(path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(busy) from None
            if _is_there(path, lock):
                _mark(path, lock)
                yield
                return
        # Another process had it, and removed it between our two steps: a lock on that file keeps nobody out.


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    for last in (False, False, True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.fdopen(open_own(path, os.O_RDWR | os.O_CREAT), "r+b", buffering=0)
            break
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not last:
                continue  # removed with its folder between the two lines
            raise _unwritable(path, error) from None
    with lock:
        yield lock


def may_be_lock(path: Path) -> bool:
    """Whether a regular file holds the marker, or a part that a kill has left of it."""
    try:
        with os.fdopen(open_own(path), "rb") as file:
            found = file.read(len(MARKER) + 1)
    except (OSError, UserError):
        return False
    return MARKER.startswith(found)


def is_lock(path: Path) -> bool:
    """Whether a regular file holds the whole marker."""
    return may_be_lock(path) and path.stat().st_size == len(MARKER)


def _mark(path: Path, lock: BinaryIO) -> None:
    """Write the marker where it is not there yet; UserError for a file that holds something else."""
    found = os.pread(lock.fileno(), len(MARKER) + 1, 0)
    if not MARKER.startswith(found):
        raise not_own(path)
    if found != MARKER:
        try:
            os.pwrite(lock.fileno(), MARKER, 0)
        except OSError as error:
            raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> UserError | MachineError:
    kind = MachineError if error.errno in OF_THE_MACHINE else UserError
    return kind(f"{path.parent}: cannot be written to ({error.strerror})")


def _is_there(path: Path, lock: BinaryIO) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(lock.fileno()))
    return False
