"""A point under way: gone on with where an earlier sweep was cut off."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.checkpoint import has_state
from airfl.errors import DivergedError, UserError
from airfl.output import CHECKPOINT_NAME, TRACE_NAME
from airfl.own import is_folder
from airfl.results.digest import keep
from airfl.run_folder import remove_run
from airfl.simulation import is_complete, run
from airfl.sweeps.folder import is_point
from airfl.sweeps.task import Job

if TYPE_CHECKING:
    from airfl.tasks.own import Task


def attempt(job: Job, folder: Path, task: Task | None = None) -> None:
    """Run the job into the folder, from where an earlier attempt was cut off, and keep its digest. task: of the user's
    own."""
    try:
        if not is_complete(folder, job.settings, task):
            run(job.settings, folder, job.device, data_dir=job.data_dir, resume=True, task=task)
    except DivergedError:
        raise
    except UserError:
        if not folder.exists():
            raise
        # Of another version, or damaged: what was begun is of no use. What is not airfl's ends it here.
        remove_run(folder)
        run(job.settings, folder, job.device, data_dir=job.data_dir, task=task)
    keep(folder)


def clear_attempts(running: Path, wanted: Collection[str]) -> None:
    """Remove what was begun of other points than these, and what nobody can go on with."""
    if not is_folder(running):
        return
    for folder in running.iterdir():
        if not (is_point(folder.name) and is_folder(folder)):
            continue  # `check_running` has refused what was there when the sweep began
        finished = (folder / TRACE_NAME).exists() and not (folder / CHECKPOINT_NAME).exists()
        if folder.name not in wanted or not (finished or has_state(folder)):
            with suppress(OSError, UserError):
                remove_run(folder)
    with suppress(OSError):
        running.rmdir()
