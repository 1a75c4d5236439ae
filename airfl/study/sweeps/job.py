"""Jobs and tasks that are sent to workers, and the outcomes that they send back."""

from __future__ import annotations

import math
import pickle
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.config import Settings
from airfl.config.plugins import REGISTRIES, packed
from airfl.errors import MachineError, UserError
from airfl.storage.fingerprint import functions_of, own_parts

if TYPE_CHECKING:
    from airfl.learning.own_task import Task


@dataclass(frozen=True)
class Job:
    """A point for a worker.

    Attributes:
        name: Name of its folder.
        settings: Its settings.
        data_dir: Folder that is searched first for data; None for the default folders only.
        device: cpu, cuda or cuda:k.
        reports: The variable of the trace that is reported after every evaluation; "" for none.
        attempt: Name of the folder in which it runs, below the one of its own name; "" for that one itself.
        parts: Fingerprints of its user-defined parts by dotted key, which must be the same where it runs.
        task: Fingerprint of the code of its user-defined task, which must be the same too; "" for none.
        files: SHA-256 of its recorded files by path, which must be the same too.
    """

    name: str
    settings: Settings
    data_dir: Path | None = None
    device: str = "cpu"
    reports: str = ""
    attempt: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    task: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuUse:
    """What a process has taken of a GPU.

    Attributes:
        taken: Most bytes that it had reserved at a time.
        free: Bytes that were free beside these.
    """

    taken: int
    free: int


class Again(Enum):
    """Why a point that has not ended may be run again."""

    DIED = "died"
    """Its process or worker was lost, which it may have caused."""
    ASKED = "asked"
    """It was asked to stop."""


@dataclass(frozen=True)
class Outcome:
    """How a point ended.

    Attributes:
        name: Name of its folder.
        cause: The error in one line if it failed, else None.
        files: Contents of its files by name if they are not on disk yet, else None.
        seconds: Duration in s; nan if unknown.
        use: What its process has taken of a GPU, None without one.
        again: Why it may be run again, or was run again in vain; None if it is finished or has failed by itself.
        retried: How often it was run again after its process or worker was lost.
        unwanted: Whether it was stopped, since it was no longer wanted. Nothing of it is left.
    """

    name: str
    cause: str | None = None
    files: dict[str, bytes] | None = None
    seconds: float = math.nan
    use: GpuUse | None = None
    again: Again | None = None
    retried: int = 0
    unwanted: bool = False


def packed_job(job: Job) -> bytes:
    """Serialise a job for a worker, including code that the worker cannot import."""
    own = own_parts(job.settings).values()
    named = [type(part) for part in own if part.name]
    return packed((named, job), [*map(type, own), *(one for part in own for one in functions_of(part))])


def unpacked_job(sent: bytes) -> Job:
    """Return a job on a worker, after registering its user-defined parts."""
    named, job = pickle.loads(sent)
    for part in named:
        for registry in REGISTRIES:
            if issubclass(part, registry.base) and part.name not in registry.classes.values():
                registry.replace(part)
    unpacked: Job = job
    return unpacked


def packed_task(task: Task) -> bytes:
    """Serialise a user-defined task for a worker, including code that the worker cannot import."""
    return packed(task, task.code)


@lru_cache(maxsize=1)
def unpacked_task(sent: bytes) -> Task:
    """Return a task on a worker; it is deserialised once per process."""
    task: Task = pickle.loads(sent)
    return task


def settings_of_a_point(settings: Settings) -> Settings:
    """Return the settings without automatic values that depend on how many points run at a time.

    The run uses one thread unless run.threads is set, and no engine or chunk that is chosen by measuring speed.
    """
    return settings.resolved(run={"threads": settings.run.threads or 1}, local={"measure": False})


def how_it_died(code: int | None) -> str:
    """Return the cause of a point whose process has ended without an answer, from its exit code."""
    if code is not None and code < 0:
        asked = "; was there enough memory?" if -code == signal.SIGKILL else ""
        return f"its process died ({signal.Signals(-code).name}){asked}"
    return f"its process ended with exit code {code}, as by sys.exit() in code of your own"


def cause_of(error: BaseException) -> str:
    """Return a message of one line for an error."""
    if isinstance(error, UserError | MachineError):
        return str(error)
    reason = str(error).splitlines()
    return f"{type(error).__name__}: {reason[0]}" if reason else type(error).__name__
