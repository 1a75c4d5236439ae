"""What a process sends back through the scheduler when it was asked to stop, because its worker is stopping too."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from airfl.core.checkpoint.carried import is_carried
from airfl.study.sweeps.cluster.orders import SECONDS_TO_STOP, Way
from airfl.study.sweeps.cluster.received import are_sent
from airfl.study.sweeps.job import Outcome

SECONDS_TO_CONNECT = 5
SECONDS_BETWEEN_TRIES = 0.5


@dataclass(frozen=True)
class Reply:
    """The files of a point that was asked to stop.

    Attributes:
        name: The point.
        files: Those of the finished point, or its checkpoint.
        finished: Whether it is finished.
    """

    name: str
    files: dict[str, bytes]
    finished: bool


def box(client: Any, lease: str) -> Any:
    """Return the queue on the scheduler for replies under a lease, which is made if it is not there."""
    import distributed

    queue: Any = distributed.Queue
    return queue(f"airfl-{lease}", client=client)


def send(way: Way, outcome: Outcome, seconds: float = SECONDS_TO_STOP) -> None:
    """Put the files of an outcome into the box. After `seconds`, no further try is made."""
    if not outcome.files:
        return
    import distributed

    client_of: Any = distributed.Client
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(Exception):  # the scheduler may be lost too, and come back
            client = client_of(way.scheduler, timeout=SECONDS_TO_CONNECT, security=way.security, set_as_default=False)
            content = {"name": outcome.name, "files": outcome.files, "finished": outcome.again is None}
            box(client, way.lease)  # it is not there if the scheduler was lost
            client.sync(client.scheduler.queue_put, name=f"airfl-{way.lease}", data=content, client=client.id)
            return
        time.sleep(SECONDS_BETWEEN_TRIES)


def replies(queue: Any) -> list[Reply]:
    """Return the replies in the box, and empty it. Anything that is not a reply is dropped."""
    found = []
    for content in queue.get(batch=True):
        with suppress(TypeError, KeyError):
            reply = Reply(str(content["name"]), dict(content["files"]), content["finished"] is True)
            if are_sent(reply.files) if reply.finished else is_carried(reply.files):
                found.append(reply)
    return found
