"""The Triton kernels of triton_kernels.py: whether there are any, and how they are started.

A GPU then draws random numbers by address itself and writes them where they are used, without a copy of that length.
Nothing here waits for the GPU, apart from the check before the first use.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.runtime.philox import LONGEST, reference
from airfl.runtime.streams import Address
from channels.transfer import on_device

logger = logging.getLogger("airfl")

Kind = Literal["words", "uniforms", "add"]

CHECKED = 1 << 12
"""Numbers of the kernels that are compared with those of numpy before they are used."""
OTHERWISE = "on a GPU, random numbers are computed by torch, several operations each"


def kernels_for(rows: Tensor) -> ModuleType | None:
    """Return the kernels if they can write to these rows, float32 [devices, count]; else None."""
    contiguous = rows.dim() == 2 and (rows.shape[1] < 2 or rows.stride(1) == 1)
    return load_kernels(rows.device) if rows.is_cuda and rows.dtype == torch.float32 and contiguous else None


@functools.cache
def load_kernels(device: torch.device) -> ModuleType | None:
    """Return the kernels; None, with a warning, without Triton or if their numbers are not those of numpy.

    A torch that is built without CUDA has no GPU for them, which needs no warning.
    """
    if torch.version.cuda is None:
        return None
    if importlib.util.find_spec("triton") is None:
        logger.warning("%s, since Triton is not installed", OTHERWISE)
        return None
    try:
        from airfl.runtime.philox import triton_kernels

        right = is_right(triton_kernels, device)
    except Exception as error:  # a compiler that is missing, a GPU that is too old, another Triton
        logger.warning("%s, since Triton failed: %s", OTHERWISE, str(error).partition("\n")[0] or type(error).__name__)
        return None
    if not right:
        logger.warning("%s, since Triton compiles the kernels to other numbers", OTHERWISE)
    return triton_kernels if right else None


def is_right(kernels: ModuleType, device: torch.device) -> bool:
    """Whether normal numbers of the kernels are those of numpy, bit for bit."""
    rows = torch.zeros(1, CHECKED, device=device)
    put(kernels, "add", rows, Address((1, 2), 3), [5], scale=1.0)
    words = reference.words_of_blocks(Address((1, 2), 3), 5, np.arange(CHECKED // 4))
    return np.array_equal(rows.cpu().numpy()[0], reference.normals_of(words).ravel())


def put(
    kernels: ModuleType,
    kind: Kind,
    rows: Tensor,
    address: Address,
    device_words: Sequence[int],
    *,
    start: int = 0,
    positions: NDArray[np.int64] | Tensor | None = None,
    scale: float = 1.0,
) -> None:
    """Write words or uniform numbers to `rows` [devices, count] in place, or add scale * N(0, 1).

    Args:
        kernels: The module of the kernels.
        kind: What is written. "words" are written as int32 of the same bits.
        rows: float32, or int32 for words.
        address: Seed, purpose and round.
        device_words: The devices' words of the counter, [devices].
        start: Position of the first number in each stream.
        positions: Positions of the numbers in each stream, [count]; None for those from `start` on.
        scale: Factor of normal numbers.
    """
    count, address_words = rows.shape[1], _address_words(address)
    if not 0 <= start <= LONGEST - count:
        raise ValueError(f"positions must be from 0 to {LONGEST - 1}, got {start} to {start + count - 1}")
    if positions is None:
        first, skipped = start >> 2, start & 3
        parts = -(-(count + skipped) // (4 * kernels.BLOCK))
        given = (count, parts, scale, _signed(first), *address_words)
        _start(kernels, kernels.numbers, rows, device_words, parts, given, {"SKIPPED": skipped, "KIND": kind})
    else:
        parts = -(-count // kernels.BLOCK)
        at = (on_device(positions, rows.device).contiguous(), count, parts, scale, *address_words)
        _start(kernels, kernels.numbers_at, rows, device_words, parts, at, {"KIND": kind})


def add_fair_binomials(
    kernels: ModuleType,
    rows: Tensor,
    address: Address,
    device_words: Sequence[int],
    trials: int,
    scale: float,
    *,
    positions: NDArray[np.int64] | Tensor | None = None,
) -> None:
    """Add scale * (Bin(trials, 1/2) - trials/2) to `rows` [devices, count]; arguments as those of `put`."""
    count = rows.shape[1]
    parts = -(-count // kernels.BLOCK)
    where = None if positions is None else on_device(positions, rows.device).contiguous()
    given = (where, count, parts, scale, *_address_words(address))
    _start(kernels, kernels.add_fair_binomials, rows, device_words, parts, given, {"TRIALS": trials})


def _start(
    kernels: ModuleType,
    kernel: Any,
    rows: Tensor,
    device_words: Sequence[int],
    parts: int,
    given: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    if not rows.numel():
        return
    words = on_device(np.asarray(device_words, dtype=np.int64), rows.device)
    with torch.cuda.device(rows.device) if rows.is_cuda else nullcontext():
        grid = (len(rows) * parts,)
        kernel[grid](rows, rows.stride(0), words, *given, **named, BLOCK=kernels.BLOCK, **kernels.OPTIONS)


def _address_words(address: Address) -> tuple[int, int, int]:
    return _signed(address.round_word), _signed(address.key[0]), _signed(address.key[1])


def _signed(word: int) -> int:
    """Return the int32 with the bits of a 32-bit word, so that the kernels' arguments are always of this type."""
    return word - (1 << 32) if word >> 31 else word
