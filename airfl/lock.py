"""One process at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airfl.errors import UserError


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock for the time of the block; UserError with the line `busy` where another process has it.

    The file is made if it is not there, its folder too, and stays.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise UserError(f"{path.parent}: cannot be written to ({error.strerror})") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(busy) from None
        yield
