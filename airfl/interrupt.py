"""Ctrl-C and SIGTERM that let a round, or a write, finish."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE = "stopping after this round; once more stops at once"


def _write(text: str) -> None:
    """On a line of its own: a terminal has shown ^C, or something else, on this one. Not by print: it may be printing
    that was interrupted, which must not begin twice."""
    with suppress(OSError):
        os.write(2, (b"\n" if os.isatty(2) else b"") + text.encode() + b"\n")


_tellers: list[Callable[[str], None]] = [_write]


@contextmanager
def told_by(tell: Callable[[str], None]) -> Iterator[None]:
    """Inside the block the notice of an interrupt is shown by `tell`, which is called by a signal's handler: it must
    write nothing itself."""
    _tellers.append(tell)
    try:
        yield
    finally:
        _tellers.remove(tell)


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
        _tellers[-1](NOTICE)

    taken = [number for number in SIGNALS if before[number] not in (signal.SIG_IGN, None)]
    try:
        for number in taken:
            signal.signal(number, ask)
        yield asked.is_set
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whoever asks to stop inside the block is heard after it: no exception comes out of its middle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for noted in came:
            signal.raise_signal(noted)
