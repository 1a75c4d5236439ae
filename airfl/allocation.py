"""Memory that is freed is kept for the next step, where the C library can be told to."""

from __future__ import annotations

import ctypes
import functools

# Of glibc's malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
LARGEST = (1 << 31) - 1
LARGE_TENSOR = 1 << 30


@functools.cache
def keep_freed_memory() -> bool:
    """Whether it could be said. For the rest of the process.

    glibc hands a large tensor's pages back when it is freed, and the next step's tensor faults them all in anew, which
    takes longer than to write it; the arenas it gives to further threads do so whatever they are told, so that there is
    one for all.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return False
    options = ((MMAP_THRESHOLD, LARGE_TENSOR), (TRIM_THRESHOLD, LARGEST), (ARENA_MAX, 1))
    said = [mallopt(*option) for option in options]
    return all(said)
