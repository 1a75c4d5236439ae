"""What a client sends to a worker to have a point run, and what the worker passes on to its process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from airfl.version import __version__

SECONDS_TO_STOP = 20.0
"""Time to finish the round, and to send back the checkpoint. Batch systems kill 30 s after they have asked."""
SECONDS_TO_SEND = 5.0
"""Time to send back the last checkpoint after that, if the round takes longer."""
ASKED_TO_STOP = 75
"""Exit code of a process that was asked to stop. It means a temporary failure (EX_TEMPFAIL), which no crash gives."""
RENEWED: Literal["renewed"] = "renewed"
"""The lease of the process was renewed."""
STOP: Literal["stop"] = "stop"
"""Stop after this round."""
END: Literal["end"] = "end"
"""End at once."""
UNWANTED: Literal["unwanted"] = "unwanted"
"""Stop the point that is running after this round, and leave nothing of it."""


@dataclass(frozen=True)
class Order:
    """What a worker has to know about a point.

    Attributes:
        lease: The lease under which it runs.
        attempt: The attempt at the point, which its client can revoke.
        name: The point.
        dataset: A name for its data set.
        devices: The GPUs of workers by address; a later worker uses the first that it sees.
        start: The checkpoint from which it goes on, if any.
        shared: The folder for checkpoints of the sweep that all workers share, if any.
        version: The client's version of airfl, which the worker must have too.
    """

    lease: str
    attempt: str
    name: str
    dataset: str = ""
    devices: Mapping[str, str] | None = None
    start: Mapping[str, bytes] = field(default_factory=dict)
    shared: str | None = None
    version: str = __version__


@dataclass(frozen=True)
class Way:
    """How a process reaches the client when its worker no longer can.

    Attributes:
        lease: The client's lease.
        scheduler: The scheduler's address.
        security: Certificates for it.
    """

    lease: str
    scheduler: str
    security: Any = None


@dataclass(frozen=True)
class Given:
    """A point for the process.

    Attributes:
        job: The serialised job.
        device: The device on which it runs; None for that of the job.
        dataset: A name for the data set; "" for that of the task.
        data: The serialised data set, the first time that it is needed.
        task: A serialised user-defined task, if any.
        start: The checkpoint from which it goes on, if any.
        shared: The folder for checkpoints of the sweep, if any.
        way: The way to the client, for what is saved when the process is asked to stop.
    """

    job: bytes
    device: str | None = None
    dataset: str = ""
    data: bytes | None = None
    task: bytes | None = None
    start: Mapping[str, bytes] = field(default_factory=dict)
    shared: str | None = None
    way: Way | None = None
