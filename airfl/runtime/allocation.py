"""Settings of glibc's memory allocator that let freed memory be reused, and large pages."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

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


def in_large_pages(tensor: Tensor) -> Tensor:
    """Ask Linux for large pages for a new tensor, before it is written, and return it.

    The first write to a small page costs more than writing it, so that a large tensor that is filled once takes several
    times as long in small pages. Nothing happens where there are none (and on a GPU).
    """
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if sys.platform == "linux" and advice is not None and tensor.device.type == "cpu":
        begin = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = tensor.data_ptr() + tensor.nbytes - begin
        if length > 0:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), advice)
    return tensor


@functools.cache
def _mallopt(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt(option, value))
    except (OSError, AttributeError, TypeError):  # another C library
        return False
