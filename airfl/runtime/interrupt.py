"""Handles Ctrl-C and SIGTERM so that a round, or a write, finishes first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE = "stopping after this round; interrupt again to stop at once"


def _write(text: str) -> None:
    """Write a line to standard error, on a new line, as a terminal has shown ^C on this one.

    `print` is not reentrant, and it may be what the signal has interrupted.
    """
    with suppress(OSError):
        os.write(2, (b"\n" if os.isatty(2) else b"") + text.encode() + b"\n")


_writers: list[Callable[[str], None]] = [_write]


@contextmanager
def told_by(tell: Callable[[str], None]) -> Iterator[None]:
    """Show the notice of an interrupt by `tell` during the block. A signal handler calls it, so it must not write."""
    _writers.append(tell)
    try:
        yield
    finally:
        _writers.remove(tell)


@contextmanager
def asked_to_stop(wanted: bool = True) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether a signal has asked this process to stop; a second one takes effect at once.

    Signals are handled during the block, if `wanted` and in the main thread. Signals that are ignored stay ignored.
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
        _writers[-1](NOTICE)

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
    """Defer signals that arrive during the block until its end, so that none interrupts it with an exception."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for signal_number in received:
            signal.raise_signal(signal_number)
