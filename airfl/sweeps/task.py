"""What goes to a worker, what runs there, and what comes back."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.config import Settings
from airfl.errors import MachineError, UserError
from airfl.fingerprint import functions_of, own_parts
from airfl.plugins import REGISTRIES, packed

if TYPE_CHECKING:
    from airfl.tasks.own import Task


@dataclass(frozen=True)
class Job:
    """A point for a worker.

    Attributes:
        name: Name of its folder.
        settings: What runs.
        data_dir: Where data is looked for first; None for the usual places alone.
        device: cpu or cuda.
    """

    name: str
    settings: Settings
    data_dir: Path | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Outcome:
    """How a point ended.

    Attributes:
        name: Name of its folder.
        cause: The cause in one line where it failed, else None.
        files: Its files by name where they are not in place yet, else None.
        seconds: Duration in s, nan where nobody knows.
    """

    name: str
    cause: str | None = None
    files: dict[str, bytes] | None = None
    seconds: float = math.nan


def packed_job(job: Job) -> bytes:
    """The job for a worker, with the code of what only this process knows."""
    own = own_parts(job.settings).values()
    named = [type(part) for part in own if part.name]
    return packed((named, job), [*map(type, own), *(one for part in own for one in functions_of(part))])


def unpacked_job(sent: bytes) -> Job:
    """On a worker: the job, with the names of the user's own parts made known."""
    named, job = pickle.loads(sent)
    for part in named:
        for registry in REGISTRIES:
            if issubclass(part, registry.base) and part.name not in registry.classes.values():
                registry.replace(part)
    found: Job = job
    return found


def packed_task(task: Task) -> bytes:
    """A task of the user's own for a worker, with the code of what only this process knows."""
    return packed(task, task.code)


@lru_cache(maxsize=1)
def unpacked_task(sent: bytes) -> Task:
    """On a worker: the task that was sent, once a process."""
    task: Task = pickle.loads(sent)
    return task


def settings_of_a_point(settings: Settings) -> Settings:
    """What runs: the settings as given, with nothing left that depends on how many points run at a time.

    One thread unless run.threads says otherwise, and no engine or chunk that a measurement of speed picks.
    """
    return settings.resolved(run={"threads": settings.run.threads or 1}, local={"measure": False})


def cause_of(error: BaseException) -> str:
    """One line for people."""
    if isinstance(error, UserError | MachineError):
        return str(error)
    reason = str(error).splitlines()
    return f"{type(error).__name__}: {reason[0]}" if reason else type(error).__name__
