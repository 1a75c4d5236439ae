"""Subsets and normal numbers from a generator that is given."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

# Uniform numbers that are in memory at a time.
BLOCK = 1 << 20
# Normal numbers that are worth a second thread.
PARALLEL = 1 << 15


def distinct(generator: np.random.Generator, size: int, rows: int, count: int) -> NDArray[np.int64]:
    """`count` of 0 .. size - 1 without replacement, ascending, afresh in each row, [rows, count].

    Every subset is equally likely: the places of the `count` smallest of `size` uniform numbers. The first rows are the
    same however many are asked for.
    """
    if count == size:
        return np.broadcast_to(np.arange(size), (rows, size)).copy()
    chosen = np.empty((rows, count), dtype=np.int64)
    block = max(1, BLOCK // size)
    for start in range(0, rows, block):
        uniforms = generator.random((min(block, rows - start), size))
        chosen[start : start + block] = np.argpartition(uniforms, count - 1, axis=1)[:, :count]
    chosen.sort(axis=1)  # the order that argpartition leaves depends on the machine
    return chosen


def fill_normals(generators: Sequence[np.random.Generator], rows: NDArray[np.float32], threads: int = 1) -> None:
    """Numbers of N(0, 1) into rows [n, count], each row from a generator of its own."""

    def fill(start: int, end: int) -> None:
        for generator, row in zip(generators[start:end], rows[start:end], strict=True):
            generator.standard_normal(out=row, dtype=np.float32)

    spread(fill, len(rows), threads if rows.size >= PARALLEL else 1)


def spread(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """work(start, end) for stretches of 0 .. count - 1, one in every thread: of use where it lets go of Python's lock,
    as numpy's generators do while they draw."""
    parts = max(1, min(threads, count))
    stretches = list(itertools.pairwise(np.linspace(0, count, parts + 1).astype(int).tolist()))
    others = [_helpers(parts - 1, os.getpid()).submit(work, *stretch) for stretch in stretches[1:]]
    work(*stretches[0])
    for other in others:
        other.result()


@functools.cache
def _helpers(count: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process: a process that is forked off has none of its parent's."""
    return ThreadPoolExecutor(count)
