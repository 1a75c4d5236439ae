"""The numbers of kernel.c as tensors: added in place in this computer's memory, computed by the device elsewhere.

On a GPU, the operations are those of reference.py on int64 words and float32 numbers. Each is rounded as on a CPU, so
the bits are the same.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.runtime.philox import Ids, add_normals, add_normals_at, device_word
from airfl.runtime.philox.reference import (
    COSINE,
    EIGHTH_TURN,
    KEY_STEPS,
    LN_2,
    LOGARITHM,
    MULTIPLIERS,
    ROUNDS,
    SINE,
    SQRT_HALF_BITS,
)
from airfl.runtime.streams import Address
from airfl.runtime.threads import run_threads

LOW = 0xFFFFFFFF


def add_normals_(
    rows: Tensor,
    address: Address,
    devices: Ids,
    scale: float,
    *,
    positions: NDArray[np.int64] | None = None,
    start: int = 0,
) -> Tensor:
    """Add scale * N(0, 1) to `rows` [devices, count] in place, and return them.

    positions: the numbers' positions in the stream of each device, ascending, [count]; None for those from `start` on.
    """
    if rows.device.type == "cpu" and rows.dtype == torch.float32 and rows.stride(1) == 1:
        threads = run_threads()
        if positions is None:
            add_normals(rows.numpy(), address, devices, scale, start=start, threads=threads)
        else:
            add_normals_at(rows.numpy(), address, devices, positions, scale, threads=threads)
        return rows
    # Which blocks are needed is known to the CPU, which would have to wait for a GPU that finds out.
    if positions is None:
        places = torch.arange(start, start + rows.shape[1], device=rows.device)
        blocks = torch.arange(start >> 2, (start + rows.shape[1] + 3) >> 2, device=rows.device)
        inverse = (places >> 2) - (start >> 2)
    else:
        several, of_each = np.unique(np.asarray(positions, dtype=np.int64) >> 2, return_inverse=True)
        parts = (np.ascontiguousarray(positions, dtype=np.int64), several, of_each)
        places, blocks, inverse = (torch.from_numpy(part).to(rows.device) for part in parts)
    for row, device in zip(rows, devices, strict=True):
        numbers = normals_of_blocks(address, device, blocks)[inverse, places & 3]
        row += numbers.to(rows.dtype) * scale
    return rows


def normals_of_blocks(address: Address, device: int | None, blocks: Tensor) -> Tensor:
    """Return the standard normal numbers of blocks of four, int64 [blocks] -> float32 [blocks, 4]."""
    words = words_of_blocks(address, device, blocks)
    pairs = [_on_circle(_radius(words[place]), words[place + 1]) for place in (0, 2)]
    return torch.stack([number for pair in pairs for number in pair], dim=1)


def words_of_blocks(address: Address, device: int | None, blocks: Tensor) -> list[Tensor]:
    """Return the four words of each block, from 0 to 2^32 - 1, int64 [blocks] each."""
    word = device_word(device)
    a, b = blocks, torch.full_like(blocks, address.round_word)
    c, d = torch.full_like(blocks, word & LOW), torch.full_like(blocks, word >> 32)
    keys = list(address.key)
    for _ in range(ROUNDS):
        # The product is that of unsigned numbers modulo 2^64, and its upper half is masked after an arithmetic shift.
        p, q = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (q >> 32) & LOW ^ b ^ keys[0], q & LOW, (p >> 32) & LOW ^ d ^ keys[1], p & LOW
        keys = [(key + step) & LOW for key, step in zip(keys, KEY_STEPS, strict=True)]
    return [a, b, c, d]


def _radius(words: Tensor) -> Tensor:
    """Return sqrt(-2 ln u) for u = (word + 1/2)/2^32."""
    bits = (words.float() * 2.0**-32 + 2.0**-33).view(torch.int32)
    exponent = (bits - int(SQRT_HALF_BITS)) >> 23
    x = (bits - (exponent << 23)).view(torch.float32) - 1.0
    square = x * x
    logarithm = _polynomial(LOGARITHM, x) * x * square - square * 0.5 + x
    logarithm = logarithm + exponent.float() * float(LN_2)
    # On CPUs, torch does not round the square root of float32 correctly. That of float64, rounded, is right.
    return torch.sqrt((logarithm.clamp(max=0.0) * -2.0).double()).float()


def _on_circle(radius: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Return the radius times cosine and sine of the angle of a word."""
    t = ((((words >> 6) & 0xFFFFFF) - 0x800000).float() + 0.5) * float(EIGHTH_TURN)
    w = t * t
    sine = _polynomial(SINE, w) * w * t + t
    cosine = _polynomial(COSINE, w) * w * w - w * 0.5 + 1.0
    quarter = words >> 30
    odd = (quarter & 1).bool()
    first, second = torch.where(odd, sine, cosine), torch.where(odd, cosine, sine)
    first = torch.where(((quarter + 1) & 2).bool(), -first, first)
    second = torch.where((quarter & 2).bool(), -second, second)
    return radius * first, radius * second


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value
