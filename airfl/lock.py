"""One process at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from airfl.errors import MachineError, UserError

OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock for the time of the block; UserError with the line `busy` where another process has it.

    The file is made if it is not there, its folder too, and stays; who holds the lock may remove both. MachineError
    where the disk is full.
    """
    while True:
        with _opened(path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(busy) from None
            if _is_there(path, lock):
                yield
                return
        # Another process had it, and removed it between our two steps: a lock on that file keeps nobody out.


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    for last in (False, False, True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.open("w")
            break
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not last:
                continue  # removed with its folder between the two lines
            kind = MachineError if error.errno in OF_THE_MACHINE else UserError
            raise kind(f"{path.parent}: cannot be written to ({error.strerror})") from None
    with lock:
        yield lock


def _is_there(path: Path, lock: TextIO) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(lock.fileno()))
    return False
