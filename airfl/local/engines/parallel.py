"""Devices side by side on the threads of a CPU: each computes its part of a chunk by itself."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Barrier

import numpy as np
import torch
from torch import Tensor

from airfl.local.engines.engine import Engine, Work


@dataclass(frozen=True)
class ParallelEngine:
    """An engine on as many threads as a run has, each with a part of the chunk.

    A large model's matrices fill one core; two that share one product wait for each other, two that compute devices of
    their own do not. A device's numbers do not depend on which thread it meets.

    Attributes:
        inner: The engine of each thread.
        threads: How many threads.
    """

    inner: Engine
    threads: int

    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """See `Engine`."""
        ends = np.linspace(0, len(updates), min(self.threads, len(updates)) + 1).round().astype(int).tolist()
        parts = [slice(begin, end) for begin, end in itertools.pairwise(ends)]

        def train(part: slice) -> None:
            own = Work(work.task, work.devices[part], work.plan[part], work.learning_rate)
            self.inner.train(parameters, own, updates[part])

        side_by_side([functools.partial(train, part) for part in parts])


def side_by_side(calls: Sequence[Callable[[], None]]) -> None:
    """The first in this thread, each of the others in one of its own, all with their operations alone."""
    others = [_workers(len(calls) - 1, os.getpid()).submit(call) for call in calls[1:]]
    with operations_alone():
        for call in calls[:1]:
            call()
    for other in others:
        other.result()


@contextmanager
def operations_alone(wanted: bool = True) -> Iterator[None]:
    """Operations of this thread take no further threads, where that is wanted."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1 if wanted else usual)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


@functools.cache
def _workers(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process (one that is forked off has none of its parent's) whose operations take no further ones.

    Made at once, since torch's setting is also that of threads to come, and is put back.
    """
    together = Barrier(threads + 1)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="devices")

    def settle() -> None:
        torch.get_num_threads()  # else a thread's first operation still takes over what the others have
        torch.set_num_threads(1)
        together.wait()

    usual = torch.get_num_threads()
    for _ in range(threads):
        pool.submit(settle)
    together.wait()
    torch.set_num_threads(usual)
    return pool
