"""Detect hangs also on a busy machine: by processor time, or for waiting processes by a generous timeout."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

PROCESSOR_S, WAITING_S = 20.0, 300.0
"""Cases here take some tens of milliseconds."""


@contextmanager
def within_seconds(processor_s: float = PROCESSOR_S, waiting_s: float = WAITING_S) -> Iterator[None]:
    """The block fails after so much of this process' time, and where it is not done after so long by the clock."""
    late: list[str] = []

    def give_up(number: int, _frame: FrameType | None) -> None:
        spent = f"{waiting_s:g} s" if number == signal.SIGALRM else f"{processor_s:g} s of processor time"
        late.append(f"not done after {spent}")
        raise AssertionError(late[0])

    before = {number: signal.signal(number, give_up) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, processor_s)
    signal.setitimer(signal.ITIMER_REAL, waiting_s)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        assert not late, late[0]  # whatever the block has made of the error
