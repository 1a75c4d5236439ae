"""The temporary folder of a process that runs points, which does not outlive it.

The process locks it and removes it when it ends. If it was killed, its worker does; and if both were killed, the next
process that begins on the machine.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airfl.analysis.results.sweep_folder import is_point
from airfl.core.run_folder import remove_run
from airfl.errors import MachineError, UserError
from airfl.storage.lock import is_lock, locked
from airfl.storage.output_files import LOCK_NAME
from airfl.storage.own_files import is_folder

PREFIX = "airfl-points-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new temporary folder that is locked during the block, and removed at its end."""
    remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with locked(folder / LOCK_NAME, f"{folder}: is used by another process"):
            yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> bool:
    """Remove such a folder, and return whether it is gone. Nothing but runs and the lock is removed."""
    with suppress(OSError, UserError):
        for point in folder.iterdir():
            if is_point(point.name):
                remove_run(point)
        if is_lock(folder / LOCK_NAME):
            (folder / LOCK_NAME).unlink()
        folder.rmdir()
    return not folder.exists()


def remove_abandoned() -> None:
    """Remove the folders of processes of this user that were killed together with their worker."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError, UserError, MachineError):
            if is_folder(folder) and folder.stat().st_uid == os.getuid() and is_lock(folder / LOCK_NAME):
                with locked(folder / LOCK_NAME, "in use"):
                    remove(folder)
