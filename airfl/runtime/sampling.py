"""Random subsets from given generators, and work spread over threads."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

# Most uniform numbers in memory at a time.
BLOCK = 1 << 20
# Fewest random numbers for which a second thread pays.
PARALLEL = 1 << 15


def distinct(generator: np.random.Generator, size: int, rows: int, count: int) -> NDArray[np.int64]:
    """Draw `count` of 0 .. size - 1 without replacement, ascending, independently in each row, [rows, count].

    A subset consists of the positions of the `count` smallest of `size` uniform numbers, so that all are equally
    likely. The first rows do not depend on the number of rows.
    """
    if count == size:
        return np.broadcast_to(np.arange(size), (rows, size)).copy()
    chosen = np.empty((rows, count), dtype=np.int64)
    block = max(1, BLOCK // size)
    for start in range(0, rows, block):
        uniforms = generator.random((min(block, rows - start), size))
        chosen[start : start + block] = np.argpartition(uniforms, count - 1, axis=1)[:, :count]
    chosen.sort(axis=1)  # the order that argpartition returns depends on the machine
    return chosen


def spread(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """Call work(start, end) for parts of 0 .. count - 1, each in its own thread.

    This helps if `work` releases Python's lock, as numpy's generators do while they draw.
    """
    number = max(1, min(threads, count))
    if number == 1:
        work(0, count)
        return
    ranges = list(itertools.pairwise(count * part // number for part in range(number + 1)))
    others = [_pool(number - 1, os.getpid()).submit(work, *bounds) for bounds in ranges[1:]]
    work(*ranges[0])
    for other in others:
        other.result()


@functools.cache
def _pool(count: int, process: int) -> ThreadPoolExecutor:
    """Return the thread pool of this process; a forked process gets its own, since threads are not inherited."""
    return ThreadPoolExecutor(count)
