"""Memory that is freed is kept for the next step, where the C library can be told to."""

from __future__ import annotations

import ctypes
import functools

# Of glibc's malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
LARGEST = (1 << 31) - 1
LARGE_TENSOR = 1 << 30
# Updates of a round from which on one arena is better than several, whose heaps are of 64 MiB at most.
LARGE_ROUND = 16 << 20


def keep_freed_memory(updates_bytes: int = 0) -> bool:
    """Whether it could be said. For the rest of the process. updates_bytes: what a round's updates take.

    glibc hands a large tensor's pages back when it is freed, and the next step's tensor faults them all in anew, which
    takes longer than to write it. The arenas it gives to further threads do so whatever they are told, so that large
    models have one for all; small ones have several, since threads would wait for one at every small tensor.
    """
    said = _tell(MMAP_THRESHOLD, LARGE_TENSOR) and _tell(TRIM_THRESHOLD, LARGEST)
    return said and (updates_bytes < LARGE_ROUND or _tell(ARENA_MAX, 1))


@functools.cache
def _tell(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt(option, value))
    except (OSError, AttributeError, TypeError):  # another C library
        return False
