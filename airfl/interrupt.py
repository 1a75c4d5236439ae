"""Ctrl-C and SIGTERM that let a round finish."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asked_to_stop(wanted: bool = True) -> Iterator[Callable[[], bool]]:
    """Whether somebody has asked to stop, inside the block. Who asks twice is not made to wait.

    Only where it is wanted, and in a process's main thread; a signal that is ignored goes on being ignored.
    """
    asked = threading.Event()
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        for each in taken:
            signal.signal(each, before[each])
        print("stopping after this round; once more stops at once", file=sys.stderr, flush=True)

    taken = [number for number in SIGNALS if before[number] not in (signal.SIG_IGN, None)]
    try:
        for number in taken:
            signal.signal(number, ask)
        yield asked.is_set
    finally:
        for number in taken:
            signal.signal(number, before[number])
