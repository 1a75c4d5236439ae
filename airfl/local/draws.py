"""Subsets and normal numbers from a generator that is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Uniform numbers that are in memory at a time.
BLOCK = 1 << 20


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


def normals(generator: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Numbers of N(0, 1), [count]."""
    return generator.standard_normal(count, dtype=np.float32)
