"""Runs a single point, and resumes it if an earlier sweep was interrupted."""

from __future__ import annotations

import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.analysis.results.digest import keep
from airfl.analysis.results.sweep_folder import is_point
from airfl.core.checkpoint import LOCK_NAME, has_state
from airfl.core.checkpoint.fingerprint import digest_of
from airfl.core.run_files import Progress
from airfl.core.run_folder import remove_run
from airfl.errors import DivergedError, UserError
from airfl.simulation import failure_of, is_complete, run
from airfl.storage.fingerprint import fingerprint, fingerprint_of_code, own_parts
from airfl.storage.lock import remove_left
from airfl.storage.output_files import CHECKPOINT_NAME, TRACE_NAME
from airfl.storage.own_files import is_folder
from airfl.study.sweeps.job import Job

if TYPE_CHECKING:
    from airfl.learning.own_task import Task
    from airfl.learning.tasks.datasets.raw import RawData


def attempt(
    job: Job,
    folder: Path,
    task: Task | None = None,
    data: RawData | None = None,
    after_a_round: Progress | None = None,
    finish_rounds: bool = False,
) -> None:
    """Run the job in the folder, resuming an interrupted attempt, and write its digest.

    Args:
        job: The point.
        folder: Its folder.
        task: A user-defined task.
        data: The data set, if it is already loaded.
        after_a_round: Called after every round.
        finish_rounds: Whether the run stops after a round when a signal asks it to.

    Raises RunInterruptedError if it was asked to stop; UserError if user-defined code or a recorded file differs in
    this process from where the sweep was started.
    """
    check_same(job, task)

    # A worker of a cluster may lack the folder. It then has the data from the scheduler, or looks in the other folders.
    data_dir = job.data_dir if job.data_dir and job.data_dir.is_dir() else None

    def start(resume: bool) -> None:
        run(
            job.settings,
            folder,
            job.device,
            after_a_round,
            data_dir,
            data,
            resume=resume,
            finish_rounds=finish_rounds,
            task=task,
        )

    begun = False
    try:
        if not is_complete(folder, job.settings, task):
            begun = True
            start(resume=True)
    except DivergedError:
        raise
    except UserError:
        if not folder.exists() or (begun and failure_of(folder) is not None):  # it would fail again
            raise
        # The earlier attempt is damaged or of another version, so it is removed. Foreign files raise an error here.
        remove_run(folder)
        start(resume=False)
    keep(folder)


def check_same(job: Job, task: Task | None) -> None:
    """Raise UserError if the code of a user-defined part or task, or a recorded file, differs in this process from what
    it was where the sweep was started.

    A process imports what it can import. The file may be another one on its machine, or have been changed since.

    Args:
        job: The job, with the fingerprints where the sweep was started.
        task: Its user-defined task in this process, if any.
    """
    own = own_parts(job.settings)
    other = [
        f"{key}: the code of {own[key]!r} in {type(own[key]).__module__}" if key in own else f"{key}: the code"
        for key, expected in job.parts.items()
        if key not in own or fingerprint(own[key]) != expected
    ]
    if task is not None and job.task and fingerprint_of_code(task.code) != job.task:
        other.append("the code of the task")
    other += [file for file, expected in job.files.items() if digest_of(file) != expected]
    if other:
        raise UserError(
            f"{other[0]} differs in the process of this point (on {socket.gethostname()}) from where the sweep was "
            "started; have the same files everywhere, leave them unchanged until the sweep has ended, and run the same "
            "command again"
        )


def clear_attempts(running: Path, wanted: Collection[str]) -> None:
    """Remove attempts at points other than these, and attempts that cannot be resumed.

    From the others, locks of killed processes are removed, which stay where `flock` is missing and would forbid it.
    """
    if not is_folder(running):
        return
    for folder in running.iterdir():
        if not (is_point(folder.name) and is_folder(folder)):
            continue  # `check_running` has rejected foreign files when the sweep began
        finished = (folder / TRACE_NAME).exists() and not (folder / CHECKPOINT_NAME).exists()
        if folder.name not in wanted or not (finished or has_state(folder)):
            with suppress(OSError, UserError):
                remove_run(folder)
        else:
            remove_left(folder / CHECKPOINT_NAME / LOCK_NAME)
    with suppress(OSError):
        running.rmdir()
