"""Runs of a comparison in a folder that several processes share, each a shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airfl.config import Settings, to_json
from airfl.core.checkpoint import has_begun
from airfl.core.checkpoint.carried import carried
from airfl.core.run_folder import remove_run
from airfl.errors import DivergedError, UserError
from airfl.storage.atomic_io import sync_path
from airfl.storage.output_files import ROWS_NAME, SHARDS_NAME, TRACE_NAME
from airfl.storage.shards import read_shards
from airfl.study.attempts import Attempts
from airfl.study.rows import check_comparison, write_rows
from airfl.study.shards import Shard, Sharing, hash_of, sharing


@dataclass(frozen=True)
class PlannedRun:
    """A run of a comparison.

    Attributes:
        what: Its label in progress reports.
        settings: Its settings, including the seed.
        folder: Its folder, OUT/ROW/seed-S.
    """

    what: str
    settings: Settings
    folder: Path

    @property
    def key(self) -> str:
        """Its name in OUT/.shards."""
        return hash_of([self.folder.parent.name, self.folder.name, to_json(self.settings.model_dump())])[:12]

    @property
    def has_ended(self) -> bool:
        """Whether it is finished, or has failed for good. A process that has the folder for itself writes unfinished
        runs there too, which have a checkpoint."""
        return (self.folder / TRACE_NAME).exists() and not has_begun(self.folder)


Start = Callable[[PlannedRun, Path, bool], object]
"""Runs a planned run in a folder; resumes the run there if the last argument is true."""


def run_shared(runs: Sequence[PlannedRun], out: Path, labels: Sequence[str], shard: Shard, start: Start) -> None:
    """Run what no other process has run or is running, until each run has ended or is run by another process.

    Args:
        runs: All runs of the comparison.
        out: Its folder.
        labels: The labels of its rows.
        shard: The shard that this process is.
        start: Starts a run. A DivergedError is recorded in the run's trace; other errors end this process.
    """

    def check() -> None:
        check_comparison(out, labels, resume=True)

    by_key = {one.key: one for one in runs}
    with sharing(out, shard, hash_of(list(by_key)), check) as shared:
        if not (out / ROWS_NAME).exists():
            write_rows(out, labels)
        while True:
            for one in shard.order(runs):
                if not one.has_ended and shared.take(one.key, one.what):
                    _run_claimed(one, out, start)
                    shared.drop(one.key)
            left = [key for key, one in by_key.items() if not one.has_ended]
            if not left or not shared.wait(left, lambda key: by_key[key].has_ended):
                break
        if all(one.has_ended for one in runs):
            _clear(out, shared)


def _run_claimed(one: PlannedRun, out: Path, start: Start) -> None:
    """Run what this process has claimed in a folder of its own, and move it to its place."""
    if one.has_ended:  # another process has finished it before this one had the claim
        return
    attempts = Attempts(out / SHARDS_NAME, one.key)
    folder = attempts.begin(carried(one.folder))
    try:
        try:
            start(one, folder, True)
        except DivergedError:
            raise
        except UserError:
            # The checkpoint is damaged, or of another version or kind of machine.
            if not has_begun(folder):
                raise
            remove_run(folder)
            start(one, folder, False)
    except DivergedError:
        pass
    except UserError:
        with suppress(OSError, UserError):
            remove_run(folder)
            folder.parent.rmdir()
        raise
    _put(folder, one)
    attempts.clear()


def _put(made: Path, one: PlannedRun) -> None:
    """Move a run that has ended to its folder, unless another process has done so, and flush it to disk."""
    for file in made.iterdir():
        sync_path(file)
    sync_path(made)
    target = one.folder
    target.parent.mkdir(exist_ok=True)
    if not one.has_ended:
        remove_run(target)  # an unfinished run, on whose checkpoint this one has gone on
    try:
        made.rename(target)
    except OSError:
        if not one.has_ended:
            raise
    sync_path(target.parent)


def _clear(out: Path, shared: Sharing) -> None:
    """Remove what processes that were killed have left, when every run has ended."""
    if not shared.lost:
        for key in read_shards(out).attempts:
            Attempts(out / SHARDS_NAME, key).clear()
