"""`airfl.storage.trace.server` with a library that crashes: `python -m tests.reliability.deadly_server`."""

import os
import signal
from collections.abc import Mapping
from typing import Any

from airfl.storage.trace.server import TraceServer
from channels.isolated.server import Answer, serve

server, poisoned = TraceServer(), False


def answer(request: Mapping[str, Any]) -> Answer:
    """Ends over a path with `deadly` in it, and over any after one with `poison`."""
    global poisoned
    if "deadly" in str(request["path"]) or poisoned:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "endless" in str(request["path"]):
        os.kill(os.getpid(), signal.SIGXCPU)
    poisoned = "poison" in str(request["path"])
    return server.answer(request)


if __name__ == "__main__":
    serve(answer, "h5py")
