"""kernel.c as a shared library."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np

from airfl.runtime.philox.reference import normals_of, words_of_blocks
from airfl.runtime.streams import Address
from airfl.storage import c_library

CHECKED = 1 << 12
"""Numbers of a library that are compared with those of numpy before it is used."""
POINTER, SIZE = ctypes.c_void_p, ctypes.c_uint64


class CAddress(ctypes.Structure):
    """The address of a stream, as kernel.c declares it."""

    _fields_ = (("device", ctypes.c_uint64), ("key", ctypes.c_uint32 * 2), ("round", ctypes.c_uint32))


SIGNATURES: dict[str, tuple[type, ...]] = {
    "airfl_normals": (SIZE, SIZE, POINTER),
    "airfl_add_normals": (SIZE, SIZE, ctypes.c_float, POINTER),
    "airfl_add_normals_at": (POINTER, SIZE, ctypes.c_float, POINTER),
    "airfl_uniforms": (SIZE, SIZE, POINTER),
    "airfl_ones": (ctypes.c_uint32, SIZE, SIZE, POINTER),
    "airfl_add_ones": (ctypes.c_uint32, SIZE, SIZE, ctypes.c_float, POINTER),
    "airfl_round": (SIZE, SIZE, ctypes.c_double, ctypes.c_double, ctypes.c_double, POINTER),
    "airfl_words": (SIZE, SIZE, POINTER),
}


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """Return the compiled library; None without a C compiler, or if the library's numbers are not those of numpy."""
    return c_library.load(SOURCE)


def _declare(loaded: ctypes.CDLL) -> None:
    for name, arguments in SIGNATURES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = (ctypes.POINTER(CAddress), *arguments), None


def _is_right(loaded: ctypes.CDLL) -> bool:
    """Whether normal numbers of the library are those of numpy, bit for bit."""
    numbers = np.empty(CHECKED, dtype=np.float32)
    loaded.airfl_normals(CAddress(5, (1, 2), 3), 0, CHECKED, numbers.ctypes.data)
    words = words_of_blocks(Address((1, 2), 3), 5, np.arange(CHECKED // 4))
    return np.array_equal(numbers, normals_of(words).ravel())


SOURCE = c_library.Source(
    file=Path(__file__).with_name("kernel.c"),
    flags=("-ffp-contract=off",),  # the same bits as numpy's, which has no fused operations
    declare=_declare,
    is_right=_is_right,
    otherwise="random numbers are computed by numpy",
)
