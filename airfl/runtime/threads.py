"""Threads of a run: those of torch's operations, and those that draw random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_of_the_run: ContextVar[int] = ContextVar("threads of the run", default=0)


def run_threads() -> int:
    """Return the number of threads of the run, also while torch's operations are single-threaded."""
    import torch  # here, so that settings can be checked without it

    return _of_the_run.get() or torch.get_num_threads()


@contextmanager
def operations_alone(wanted: bool = True) -> Iterator[None]:
    """Context in which torch operations of this thread are single-threaded, if `wanted`."""
    import torch

    usual, token = torch.get_num_threads(), _of_the_run.set(run_threads())
    torch.set_num_threads(1 if wanted else usual)
    try:
        yield
    finally:
        torch.set_num_threads(usual)
        _of_the_run.reset(token)
