"""Digits, nearest words, seeds of k-means and message passing in single passes by kernel.c: what torch computes in
several. Each function returns None where kernel.c cannot be used, so that torch computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.sampling import PARALLEL, spread
from airfl.runtime.threads import run_threads
from airfl.uplinks.stages.kernels.library import load_library
from channels.count_detection import STEPS, Steps

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["digits_of", "nearest_of", "seeds_of", "steps_for"]

LANES = 16
"""Blocks that kernel.c compares with words at a time."""


def digits_of(values: Tensor, factors: Tensor, base: int, digits: int) -> Tensor | None:
    """Return the digits of the nearest whole numbers to factors * values, cut to +-(b^D - 1)/2, [devices, D m].

    Args:
        values: [devices, m].
        factors: Factor of each device, [devices].
        base: b, odd.
        digits: D.
    """
    compiled = load_library()
    if compiled is None or not _readable(values, factors):
        return None
    devices, entries = values.shape
    sent, middle = values.new_empty(devices, digits * entries), (base**digits - 1) // 2
    factors = factors.contiguous()

    def fill(first: int, last: int) -> None:
        compiled.airfl_digits(
            *(values.data_ptr(), values.stride(0), factors.data_ptr(), base, digits, middle),
            *(devices, first, last, entries, sent.data_ptr()),
        )

    spread(fill, entries, run_threads() if sent.numel() >= PARALLEL else 1)
    return sent


def nearest_of(rows: Tensor, factors: Tensor, words: Tensor, offsets: Tensor) -> Tensor | None:
    """Return the index of the nearest word of every block of factors * rows, float32 [rows, blocks].

    Where two words are nearest up to rounding, it may be either.

    Args:
        rows: [rows, d]; the last of their blocks is filled up with zeros.
        factors: Factor of each row, [rows].
        words: [words, length].
        offsets: -|c|^2/2 of each word c, [words].
    """
    compiled = load_library()
    if compiled is None or not _readable(rows, factors, words, offsets):
        return None
    (number, entries), (count, length) = rows.shape, words.shape
    found, factors = rows.new_empty(number, -(-entries // length)), factors.contiguous()
    words, offsets = words.contiguous(), offsets.contiguous()

    def fill(first: int, last: int) -> None:
        scratch = rows.new_empty(length * LANES)
        compiled.airfl_nearest_words(
            *(rows.data_ptr(), rows.stride(0), factors.data_ptr(), first, last, entries, length),
            *(words.data_ptr(), offsets.data_ptr(), count, scratch.data_ptr(), found.data_ptr()),
        )

    spread(fill, number, run_threads() if rows.numel() >= PARALLEL else 1)
    return found


def seeds_of(blocks: Tensor, uniforms: NDArray[np.float64]) -> Sequence[int] | None:
    """Return which blocks are the seeds of k-means that these uniform numbers draw, at most one each.

    Args:
        blocks: [blocks, length].
        uniforms: [words].
    """
    compiled = load_library()
    if compiled is None or not len(blocks) or not _readable(blocks):
        return None
    entries, uniforms = blocks.T.contiguous(), np.ascontiguousarray(uniforms)
    chosen, scratch = np.empty(len(uniforms), dtype=np.int64), np.empty((2, len(blocks)))
    number = compiled.airfl_seeds(
        *(entries.data_ptr(), len(blocks), blocks.shape[1], uniforms.ctypes.data, len(uniforms)),
        *(scratch[0].ctypes.data, scratch[1].ctypes.data, chosen.ctypes.data),
    )
    found: list[int] = chosen[:number].tolist()
    return found


def steps_for(received: Tensor, columns: Tensor) -> Steps | None:
    """Return the steps of message passing for these blocks and sequences.

    Args:
        received: [blocks, length].
        columns: A, [length, words].
    """
    compiled = load_library()
    if compiled is None or not received.is_contiguous() or not _readable(received, columns):
        return None
    length, words = columns.shape
    columns, rows = _padded(columns), _padded(columns.T)

    def correlate(state: Tensor, counts: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        noisy, noise = state.new_empty(len(active), words), state.new_empty(len(active))
        scratch = state.new_empty(columns.shape[1])
        compiled.airfl_correlate(
            *(state.data_ptr(), counts.data_ptr(), active.data_ptr(), len(active), columns.data_ptr(), length, words),
            *(scratch.data_ptr(), noisy.data_ptr(), noise.data_ptr()),
        )
        return noisy, noise

    def decide(state: Tensor, counts: Tensor, active: Tensor, noisy: Tensor, tables: Tensor, lines: Tensor) -> Tensor:
        changes, scratch = state.new_empty(len(active)), state.new_empty(3 * words + rows.shape[1])
        compiled.airfl_decide(
            *(received.data_ptr(), state.data_ptr(), counts.data_ptr(), active.data_ptr(), len(active)),
            *(rows.data_ptr(), length, words, noisy.data_ptr(), tables.data_ptr(), lines.data_ptr()),
            *(tables.shape[1], STEPS, scratch.data_ptr(), changes.data_ptr()),
        )
        return changes

    return Steps(correlate, decide)


def _padded(matrix: Tensor) -> Tensor:
    """Return a copy whose rows are filled up with zeros to a multiple of `LANES`."""
    import torch

    return torch.nn.functional.pad(matrix, (0, -matrix.shape[1] % LANES)).contiguous()


def _readable(numbers: Tensor, *others: Tensor) -> bool:
    """Whether kernel.c can read the rows of this matrix as they lie in memory, and the numbers of the others."""
    import torch

    known = all(one.device.type == "cpu" and one.dtype == torch.float32 for one in (numbers, *others))
    return known and numbers.stride(1) == 1
