"""Devices in parallel on the threads of a CPU, each of which computes its own part of a chunk."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import numpy as np
import torch
from torch import Tensor

from airfl.learning.engines.engine import Engine, Work
from airfl.runtime.threads import operations_alone


@dataclass(frozen=True)
class ParallelEngine:
    """An engine that splits a chunk among threads.

    The matrices of a large model keep one core busy. Two cores that share a product wait for each other, while two that
    compute different devices do not. The result for a device does not depend on its thread.

    Attributes:
        inner: The engine that each thread uses.
        threads: Number of threads.
    """

    inner: Engine
    threads: int

    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """Split the work among the threads."""

        def train(part: slice) -> None:
            own = Work(work.task, work.devices[part], work.plan[part], work.learning_rate)
            self.inner.train(parameters, own, updates[part])

        run_in_threads([functools.partial(train, part) for part in equal_parts(len(updates), self.threads)])


@functools.lru_cache(maxsize=64)  # the same in every round
def equal_parts(items: int, threads: int) -> tuple[slice, ...]:
    """Return slices that divide the items among this many threads."""
    ends = np.linspace(0, items, min(threads, items) + 1).round().astype(int).tolist()
    return tuple(slice(begin, end) for begin, end in itertools.pairwise(ends))


def run_in_threads(calls: Sequence[Callable[[], None]]) -> None:
    """Run the first call in this thread and each other one in its own, with single-threaded torch operations."""
    others = [_workers(len(calls) - 1, os.getpid()).submit(call) for call in calls[1:]]
    with operations_alone():
        for call in calls[:1]:
            call()
    for other in others:
        other.result()


@functools.cache
def _workers(threads: int, process: int) -> ThreadPoolExecutor:
    """Return a pool of threads whose torch operations are single-threaded. A forked process gets its own pool.

    All threads are started at once, since torch's setting also applies to threads started later. It is restored.
    """
    together = Barrier(threads + 1)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="devices")

    def settle() -> None:
        torch.get_num_threads()  # otherwise the thread's first operation takes over the setting of the others
        torch.set_num_threads(1)
        together.wait()

    usual = torch.get_num_threads()
    for _ in range(threads):
        pool.submit(settle)
    together.wait()
    torch.set_num_threads(usual)
    return pool
