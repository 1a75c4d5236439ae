"""Attempts at a run, in folders of their own: FOLDER/POINT/ATTEMPT.

Every attempt begins with a copy of the newest checkpoint of earlier ones. So none waits for the lock of a process that
was lost, which may still be running, and none of them writes into the folder of another.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from airfl.analysis.results.sweep_folder import is_point
from airfl.core.checkpoint.carried import Files, carried, put_carried, rounds_of
from airfl.core.run_folder import remove_run
from airfl.errors import UserError
from airfl.storage.output_files import SHARDS_NAME, TRACE_NAME
from airfl.storage.own_files import is_folder
from airfl.storage.shards import read_shards, remove_ended, remove_failures


class Attempts:
    """The attempts at a point."""

    def __init__(self, place: Path, name: str) -> None:
        self._place, self._folder = place, place / name

    def begin(self, start: Files) -> Path:
        """Return a new folder for an attempt, with the newest checkpoint. start: one from elsewhere, if any."""
        newest = self.newest(start)
        folder = self._folder / secrets.token_hex(6)
        folder.mkdir(parents=True)
        if newest:
            put_carried(newest, folder)
        return folder

    def newest(self, start: Files) -> Files:
        """Return the newest checkpoint of all attempts, or `start` if none is newer."""
        return max((start, *map(carried, self._attempts())), key=rounds_of)

    def clear(self) -> None:
        """Remove all attempts: the point has ended."""
        for folder in list(self._attempts()):
            with suppress(OSError, UserError):
                remove_run(folder)
        with suppress(OSError):
            self._folder.rmdir()
            self._place.rmdir()

    def _attempts(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            if is_folder(self._folder):
                yield from (one for one in self._folder.iterdir() if is_point(one.name) and is_folder(one))


def take_over(root: Path, target: Callable[[str], Path | None]) -> None:
    """Remove what shards that have ended have left in OUT/.shards, after moving their checkpoints to where a process
    that has the folder for itself goes on from them.

    Args:
        root: The folder, which this process has for itself.
        target: Returns the folder for the run of a point; None if the run is not wanted.
    """
    left = read_shards(root)
    for name in left.attempts:
        attempts, folder = Attempts(root / SHARDS_NAME, name), target(name)
        if folder is not None and not (folder / TRACE_NAME).exists():
            found = carried(folder)
            newest = attempts.newest(found)
            if rounds_of(newest) > rounds_of(found):
                remove_run(folder)
                put_carried(newest, folder)
        attempts.clear()
    remove_failures(root, left.failed)
    remove_ended(root, all_claims=True)
