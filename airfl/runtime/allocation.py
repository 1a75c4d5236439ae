"""Settings of glibc's memory allocator that let freed memory be reused."""

from __future__ import annotations

import ctypes
import functools

# Constants of glibc's malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
LARGEST = (1 << 31) - 1
LARGE_TENSOR = 1 << 30
# Size of a round's updates in bytes above which one arena is better than several, whose heaps are limited to 64 MiB.
LARGE_ROUND = 16 << 20


def keep_freed_memory(updates_bytes: int = 0) -> bool:
    """Make the allocator keep freed memory for the rest of the process, and return whether it could be set.

    By default glibc returns the pages of a large freed tensor to the system, and the next tensor causes page faults
    that take longer than writing it. The arenas of further threads do so regardless of the settings, so large models
    use a single arena. Small models use several, because threads would contend for one at every small tensor.

    updates_bytes: memory of a round's updates.
    """
    done = _mallopt(MMAP_THRESHOLD, LARGE_TENSOR) and _mallopt(TRIM_THRESHOLD, LARGEST)
    return done and (updates_bytes < LARGE_ROUND or _mallopt(ARENA_MAX, 1))


@functools.cache
def _mallopt(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt(option, value))
    except (OSError, AttributeError, TypeError):  # another C library
        return False
