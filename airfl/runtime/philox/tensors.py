"""The numbers of kernel.c as tensors: computed in place in this computer's memory, and by the device elsewhere.

On a GPU, the Triton kernels of triton_kernels.py compute them. Without these, and for rows that are not float32 or not
contiguous, the operations are those of reference.py on int64 words and float32 numbers. Each is rounded as on a CPU, so
the bits are the same.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.runtime import philox
from airfl.runtime.philox import LONGEST, Ids, add_normals, add_normals_at, device_word, gpu
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
from channels.transfer import on_device

LOW = 0xFFFFFFFF


Positions = NDArray[np.int64] | Tensor


def add_normals_(
    rows: Tensor,
    address: Address,
    devices: Ids | None,
    scale: float,
    *,
    positions: Positions | None = None,
    start: int = 0,
) -> Tensor:
    """Add scale * N(0, 1) to `rows` [devices, count] in place, and return them; [count] if `devices` is None.

    positions: the numbers' positions in the stream of each device, ascending, [count], an array or a tensor on the
    device of the rows; None for those from `start` on.
    """
    matrix = rows.unsqueeze(0) if devices is None else rows
    if _in_memory(matrix):
        threads = run_threads()
        if positions is None:
            add_normals(matrix.numpy(), address, devices, scale, start=start, threads=threads)
        else:
            add_normals_at(matrix.numpy(), address, devices, _array(positions), scale, threads=threads)
        return rows
    words = _device_words(devices)
    kernels = gpu.kernels_for(matrix)
    if kernels is not None:
        gpu.put(kernels, "add", matrix, address, words, start=start, positions=positions, scale=scale)
        return rows
    blocks, inverse, lanes = _blocks(matrix.shape[1], start, positions, matrix.device)
    for row, word in zip(matrix, words, strict=True):
        row += _normals(_words(address, word, blocks))[inverse, lanes].to(rows.dtype) * scale
    return rows


def uniforms(
    address: Address, devices: Ids, count: int, where: torch.device, *, positions: Positions | None = None
) -> Tensor:
    """Return uniform numbers (n + 1/2)/2^24 in (0, 1) on the device `where`, float32 [devices, count].

    positions: the numbers' positions in each stream, as for `add_normals_`; None for those from 0 on.
    """
    if where.type == "cpu":
        return _by_cpu(philox.uniforms(address, devices, _span(count, positions), threads=run_threads()), positions)
    rows, words = torch.empty(len(devices), count, device=where), _device_words(devices)
    kernels = gpu.kernels_for(rows)
    if kernels is not None:
        gpu.put(kernels, "uniforms", rows, address, words, positions=positions)
        return rows
    blocks, inverse, lanes = _blocks(count, 0, positions, where)
    for row, word in zip(rows, words, strict=True):
        drawn = torch.stack(_words(address, word, blocks), dim=1)[inverse, lanes]
        row.copy_(((drawn >> 8).float() + 0.5) * 2.0**-24)
    return rows


def round_stochastically_(
    rows: Tensor,
    address: Address,
    devices: Ids,
    limit: float,
    step: float,
    levels: int,
    *,
    positions: Positions | None = None,
) -> Tensor:
    """Replace each x of `rows` [devices, count] by B - (levels - 1)/2, and return them. B is one of the two integers
    around a = (x + limit)/step, drawn so that E B = a. x is clamped to +-limit first; positions as for `uniforms`."""
    centre = (levels - 1) / 2
    if _in_memory(rows) and positions is None:
        philox.round_stochastically(rows.numpy(), address, devices, limit, step, centre, threads=run_threads())
        return rows
    drawn = uniforms(address, devices, rows.shape[1], rows.device, positions=positions)
    # With many levels, float32 has too few digits for the fractional part.
    above = (rows.double().clamp(-limit, limit) + limit) / step
    lower = above.floor()
    return rows.copy_(lower + (drawn < above - lower) - centre)


def rounded_stochastically(
    values: Tensor,
    factors: Tensor,
    address: Address,
    devices: Ids,
    limit: float,
    step: float,
    levels: int,
    *,
    positions: Positions | None = None,
) -> Tensor:
    """Return what `round_stochastically_` makes of factors [devices] times values [devices, count]."""
    if not _in_memory(values) or positions is not None:
        rows = values * factors.unsqueeze(1)
        return round_stochastically_(rows, address, devices, limit, step, levels, positions=positions)
    rows, of, centre = torch.empty(values.shape), (values.numpy(), factors.numpy()), (levels - 1) / 2
    philox.round_stochastically(rows.numpy(), address, devices, limit, step, centre, of=of, threads=run_threads())
    return rows


def add_fair_binomials_(
    rows: Tensor,
    address: Address,
    devices: Ids,
    trials: int,
    scale: float,
    *,
    positions: Positions | None = None,
) -> Tensor:
    """Add scale * (Bin(trials, 1/2) - trials/2) to `rows` [devices, count] in place, and return them.

    trials: at most MOST_TRIALS. positions: as for `uniforms`.
    """
    if _in_memory(rows) and positions is None:
        philox.add_fair_binomials(rows.numpy(), address, devices, trials, scale, threads=run_threads())
        return rows
    if rows.device.type == "cpu":
        drawn = philox.fair_binomials(address, devices, trials, _span(rows.shape[1], positions), threads=run_threads())
        return rows.add_((_by_cpu(drawn, positions) - trials / 2).to(rows.dtype) * scale)
    kernels, words = gpu.kernels_for(rows), _device_words(devices)
    if kernels is not None:
        gpu.add_fair_binomials(kernels, rows, address, words, trials, scale, positions=positions)
        return rows
    each = -(-trials // 32)
    numbers = (
        torch.arange(rows.shape[1], device=rows.device) if positions is None else on_device(positions, rows.device)
    )
    for row, word in zip(rows, words, strict=True):
        ones = torch.zeros_like(numbers)
        for index in range(each):
            places = numbers * each + index
            drawn_words = torch.stack(_words(address, word, places >> 2), dim=1)
            own = drawn_words.gather(1, (places & 3).unsqueeze(1))[:, 0]
            ones += _ones(own >> (32 * each - trials if index == each - 1 else 0))
        row += (ones - trials / 2).to(rows.dtype) * scale
    return rows


def _in_memory(rows: Tensor) -> bool:
    """Whether kernel.c can change these rows, [devices, count]."""
    return rows.device.type == "cpu" and rows.dtype == torch.float32 and rows.stride(1) == 1


def _by_cpu(numbers: NDArray[np.float32], positions: Positions | None) -> Tensor:
    return torch.from_numpy(numbers if positions is None else numbers[:, _array(positions)])


def _span(count: int, positions: Positions | None) -> int:
    """Return how many numbers of a stream cover those that are wanted."""
    return count if positions is None else int(positions[-1]) + 1 if len(positions) else 0


def _array(positions: Positions) -> NDArray[np.int64]:
    return positions if isinstance(positions, np.ndarray) else np.asarray(positions.numpy())


def _device_words(devices: Ids | None) -> list[int]:
    return [device_word(None)] if devices is None else [device_word(device) for device in devices]


def _blocks(count: int, start: int, positions: Positions | None, where: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the blocks that numbers are taken from, and for each number its row of them and its place in the block."""
    if not 0 <= start <= LONGEST - count:
        raise ValueError(f"positions must be from 0 to {LONGEST - 1}, got {start} to {start + count - 1}")
    if positions is None:
        places = torch.arange(start, start + count, device=where)
        blocks = torch.arange(start >> 2, (start + count + 3) >> 2, device=where)
        return blocks, (places >> 2) - (start >> 2), places & 3
    if isinstance(positions, Tensor):
        # Which blocks are distinct is known to the GPU alone, for which the CPU would have to wait.
        return positions >> 2, torch.arange(count, device=where), positions & 3
    several, of_each = np.unique(positions >> 2, return_inverse=True)
    blocks, inverse, places = (on_device(part, where) for part in (several, of_each, positions))
    return blocks, inverse, places & 3


def normals_of_blocks(address: Address, device: int | None, blocks: Tensor) -> Tensor:
    """Return the standard normal numbers of blocks of four, int64 [blocks] -> float32 [blocks, 4]."""
    return _normals(words_of_blocks(address, device, blocks))


def _normals(words: list[Tensor]) -> Tensor:
    pairs = [_on_circle(_radius(words[place]), words[place + 1]) for place in (0, 2)]
    return torch.stack([number for pair in pairs for number in pair], dim=1)


def words_of_blocks(address: Address, device: int | None, blocks: Tensor) -> list[Tensor]:
    """Return the four words of each block, from 0 to 2^32 - 1, int64 [blocks] each."""
    return _words(address, device_word(device), blocks)


def _words(address: Address, word: int, blocks: Tensor) -> list[Tensor]:
    a, b = blocks, torch.full_like(blocks, address.round_word)
    c, d = torch.full_like(blocks, word & LOW), torch.full_like(blocks, word >> 32)
    keys = list(address.key)
    for _ in range(ROUNDS):
        # The product is that of unsigned numbers modulo 2^64, and its upper half is masked after an arithmetic shift.
        p, q = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (q >> 32) & LOW ^ b ^ keys[0], q & LOW, (p >> 32) & LOW ^ d ^ keys[1], p & LOW
        keys = [(key + step) & LOW for key, step in zip(keys, KEY_STEPS, strict=True)]
    return [a, b, c, d]


def _ones(words: Tensor) -> Tensor:
    """Return how many bits of 32-bit words are ones."""
    pairs = words - ((words >> 1) & 0x55555555)
    fours = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    return (((fours + (fours >> 4)) & 0x0F0F0F0F) * 0x01010101 >> 24) & 0xFF


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
