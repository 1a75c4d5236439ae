"""Checkpoints in a folder that all workers share.

Every attempt at a point has its own folder SHARED/airfl-SWEEP/POINT/ATTEMPT, and begins with a copy of the newest
checkpoint of earlier ones. So no attempt waits for the lock of a worker that was lost, which may still be running.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from airfl.analysis.results.sweep_folder import is_point
from airfl.core.checkpoint.carried import Files, carried, put_carried, rounds_of
from airfl.core.run_folder import remove_run
from airfl.errors import UserError
from airfl.storage.own_files import is_folder


def folder_of_sweep(shared: Path, out: Path) -> Path:
    """Return where a sweep into the folder `out` keeps checkpoints: the same one whenever it is continued."""
    of = hashlib.sha256(f"{os.getuid()}:{out.resolve()}".encode()).hexdigest()
    return shared / f"airfl-{of[:12]}"


class SharedPoint:
    """The attempts at a point in a shared folder."""

    def __init__(self, sweep: Path, name: str) -> None:
        self._sweep, self._folder = sweep, sweep / name

    def begin(self, start: Files) -> Path:
        """Return a new folder for an attempt, with the newest checkpoint. start: one from elsewhere, if any.

        Raises UserError if the shared folder is not there.
        """
        if not self._sweep.parent.is_dir():
            raise UserError(
                f"--shared-dir: {self._sweep.parent} is not a folder on this worker ({os.uname().nodename})"
            )
        newest = max((start, *map(carried, self._attempts())), key=rounds_of)
        folder = self._folder / secrets.token_hex(6)
        folder.mkdir(parents=True)
        if newest:
            put_carried(newest, folder)
        return folder

    def clear(self) -> None:
        """Remove all attempts: the point has ended."""
        for folder in list(self._attempts()):
            with suppress(OSError, UserError):
                remove_run(folder)
        with suppress(OSError):
            self._folder.rmdir()
            self._sweep.rmdir()

    def _attempts(self) -> Iterator[Path]:
        if is_folder(self._folder):
            yield from (one for one in self._folder.iterdir() if is_point(one.name) and is_folder(one))
