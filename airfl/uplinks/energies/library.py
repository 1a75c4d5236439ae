"""kernel.c as a shared library."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np

from airfl.storage import c_library

POINTER, SIZE = ctypes.c_void_p, ctypes.c_int64
CHECKED = 1 << 10
"""Slots of a library that are compared with numpy's before it is used."""


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """Return the compiled library; None without a C compiler, or if its numbers are not those of numpy."""
    return c_library.load(SOURCE)


def _declare(loaded: ctypes.CDLL) -> None:
    loaded.airfl_amplitudes.argtypes = (POINTER, SIZE, *[POINTER] * 3, *[SIZE] * 5, POINTER, POINTER)
    loaded.airfl_digit_amplitudes.argtypes = (POINTER, SIZE, *[POINTER] * 4, *[SIZE] * 5, *[POINTER] * 2)
    loaded.airfl_add_symbols.argtypes = (*[POINTER] * 3, SIZE, POINTER, *[SIZE] * 5, POINTER)
    for function in (loaded.airfl_amplitudes, loaded.airfl_digit_amplitudes, loaded.airfl_add_symbols):
        function.restype = None


def _is_right(loaded: ctypes.CDLL) -> bool:
    """Whether amplitudes are those of numpy bit for bit, and sums up to the rounding of a product."""
    generator = np.random.default_rng(0)
    values, table, sums = (
        generator.normal(size=size).astype(np.float32) for size in ((CHECKED,), (2, 256), (2, 1, CHECKED))
    )
    factor, offset, slope = (np.array([number], dtype=np.float32) for number in (0.7, 0.2, -0.5))
    (amplitudes, squares), drawn = (
        np.empty((2, CHECKED), dtype=np.float32),
        generator.integers(256, size=CHECKED, dtype=np.uint8),
    )
    given = (values.ctypes.data, CHECKED, *(one.ctypes.data for one in (factor, offset, slope)))
    loaded.airfl_amplitudes(*given, 1, 1, 0, CHECKED, CHECKED, amplitudes.ctypes.data, squares.ctypes.data)
    wanted = sums[:, 0] + table[:, drawn].astype(np.float64) * amplitudes
    given = (table[0].ctypes.data, table[1].ctypes.data, drawn.ctypes.data, 1, amplitudes.ctypes.data)
    loaded.airfl_add_symbols(*given, 1, 1, 0, CHECKED, CHECKED, sums.ctypes.data)
    same = np.array_equal(amplitudes, np.sqrt(np.maximum(offset + slope * (factor * values), 0)))
    same &= np.array_equal(squares, amplitudes**2)
    return same and bool(np.allclose(sums[:, 0], wanted, rtol=1e-6, atol=1e-6))


SOURCE = c_library.Source(
    file=Path(__file__).with_name("kernel.c"),
    flags=("-ffp-contract=off",),
    declare=_declare,
    is_right=_is_right,
    otherwise="energies of non-coherent aggregation are computed by torch",
)
