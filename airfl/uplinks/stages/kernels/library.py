"""kernel.c as a shared library."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np

from airfl.storage import c_library

POINTER, SIZE, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
SIGNATURES: dict[str, tuple[type, ...]] = {
    "airfl_digits": (POINTER, SIZE, POINTER, FLOAT, SIZE, FLOAT, *[SIZE] * 4, POINTER),
    "airfl_nearest_words": (POINTER, SIZE, POINTER, *[SIZE] * 4, POINTER, POINTER, SIZE, POINTER, POINTER),
    "airfl_seeds": (POINTER, SIZE, SIZE, POINTER, SIZE, *[POINTER] * 3),
    "airfl_correlate": (*[POINTER] * 3, SIZE, POINTER, SIZE, SIZE, *[POINTER] * 3),
    "airfl_decide": (*[POINTER] * 4, SIZE, POINTER, SIZE, SIZE, *[POINTER] * 3, SIZE, FLOAT, POINTER, POINTER),
}


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """Return the compiled library; None without a C compiler, or if its numbers are not those of numpy."""
    return c_library.load(SOURCE)


def _declare(loaded: ctypes.CDLL) -> None:
    for name, arguments in SIGNATURES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, SIZE if name == "airfl_seeds" else None


def _is_right(loaded: ctypes.CDLL) -> bool:
    """Whether digits to the base 3 make the levels -13 to 13 again, and the nearest of a few words is found."""
    levels, one = np.arange(-13, 14, dtype=np.float32), np.ones(1, dtype=np.float32)
    digits = np.empty((3, 27), dtype=np.float32)
    loaded.airfl_digits(levels.ctypes.data, 27, one.ctypes.data, 3.0, 3, 13.0, 1, 0, 27, 27, digits.ctypes.data)
    words = np.arange(-9, 10, 3, dtype=np.float32)
    offsets, scratch, found = -(words**2) / 2, np.empty(16, dtype=np.float32), np.empty(27, dtype=np.float32)
    given = (levels.ctypes.data, 27, one.ctypes.data, 0, 1, 27, 1, words.ctypes.data, offsets.ctypes.data, len(words))
    loaded.airfl_nearest_words(*given, scratch.ctypes.data, found.ctypes.data)
    nearest = np.abs(levels[:, None] - words).argmin(axis=1)
    same = np.array_equal(np.array([1, 3, 9]) @ digits, levels) and np.abs(digits).max() == 1
    return bool(same and np.array_equal(found, nearest))


SOURCE = c_library.Source(
    file=Path(__file__).with_name("kernel.c"),
    # Products and sums may be fused, and sums taken in the order of vectors.
    flags=("-ffp-contract=fast", "-fassociative-math", "-fno-signed-zeros"),
    declare=_declare,
    is_right=_is_right,
    otherwise="digits, nearest words and counts of digital aggregation over the air are computed by torch",
)
