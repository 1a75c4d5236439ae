"""Long arrays of random numbers by address, by a counter-based generator: Philox 4x32-10.

The key is a hash of (seed, purpose), and the counter is (position, round, device). Any number of a stream can be
computed without those before it, on a CPU or a GPU, in any order, with the same bits. Normal numbers are made by the
method of Box and Muller from two words each, and lie within +-6.8. kernel.c computes them where a C compiler is found,
else numpy (reference.py); on a GPU triton_kernels.py, or torch where Triton is not found (tensors.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.philox import reference
from airfl.runtime.philox.library import CAddress, load_library
from airfl.runtime.sampling import PARALLEL, spread
from airfl.runtime.streams import Address

__all__ = [
    "MOST_TRIALS",
    "add_fair_binomials",
    "add_normals",
    "add_normals_at",
    "fair_binomials",
    "normals",
    "round_stochastically",
    "uniforms",
    "words",
]

Ids = Sequence[int] | NDArray[np.int64]
Floats = NDArray[np.float32]
Words = NDArray[np.uint32]
N = TypeVar("N", np.float32, np.uint32)

LONGEST = 1 << 34
"""Positions of a stream: four for each of 2^32 blocks."""
SPARSE = 5
"""If the positions are fewer than the numbers up to the last one by this factor, they are computed one by one."""
MOST_TRIALS = 512
"""Most trials of a binomial number. Counting more random bits is slower than a sampler."""
BLOCKS = 1 << 12
"""Blocks that numpy computes at a time, so that they stay in the processor's cache."""


def normals(address: Address, devices: Ids | None, count: int, *, start: int = 0, threads: int = 1) -> Floats:
    """Return standard normal numbers, float32 [devices, count]; [count] if `devices` is None.

    address: seed, purpose and round. start: position of the first number in each stream.
    """
    return _filled("airfl_normals", reference.normals_of, np.float32, address, devices, count, start, threads)


def uniforms(address: Address, devices: Ids | None, count: int, *, start: int = 0, threads: int = 1) -> Floats:
    """Return uniform numbers (n + 1/2)/2^24 in (0, 1), float32 [devices, count]; [count] if `devices` is None."""
    return _filled("airfl_uniforms", reference.uniforms_of, np.float32, address, devices, count, start, threads)


def words(address: Address, devices: Ids | None, count: int, *, start: int = 0, threads: int = 1) -> Words:
    """Return random 32-bit words, uint32 [devices, count]; [count] if `devices` is None."""
    return _filled("airfl_words", lambda drawn: drawn, np.uint32, address, devices, count, start, threads)


def random_bytes(address: Address, devices: Ids, count: int, *, threads: int = 1) -> NDArray[np.uint8]:
    """Return random bytes, uint8 [devices, count]: those of `words`, the low byte of each first."""
    drawn = words(address, devices, -(-count // 4), threads=threads)
    return drawn.astype("<u4", copy=False).view(np.uint8)[:, :count]


def fair_binomials(address: Address, devices: Ids, trials: int, count: int, *, threads: int = 1) -> Floats:
    """Return numbers from Bin(trials, 1/2) by counting random bits, float32 [devices, count]. trials: at most 512."""
    compiled = load_library()
    rows = np.empty((len(devices), count), dtype=np.float32)

    def fill(row: int, first: int, last: int) -> None:
        part = rows[row, first:last]
        if compiled is None:
            part[:] = _ones_by_numpy(address, devices[row], trials, first, len(part))
        else:
            compiled.airfl_ones(_address(address, devices[row]), trials, first, len(part), part.ctypes.data)

    _check_trials(trials, count)
    _spread(fill, rows, threads)
    return rows


def add_fair_binomials(
    rows: Floats, address: Address, devices: Ids, trials: int, scale: float, *, threads: int = 1
) -> None:
    """Add scale * (Bin(trials, 1/2) - trials/2) to `rows` [devices, count] in place; the numbers are those of
    `fair_binomials`."""
    compiled = load_library()

    def add(row: int, first: int, last: int) -> None:
        part = rows[row, first:last]
        if compiled is None:
            ones = _ones_by_numpy(address, devices[row], trials, first, len(part))
            part += np.float32(scale) * (ones - np.float32(trials / 2))
        else:
            at = _address(address, devices[row])
            compiled.airfl_add_ones(at, trials, first, len(part), scale, part.ctypes.data)

    _check_trials(trials, rows.shape[1])
    _check(rows, 0)
    _spread(add, rows, threads)


def round_stochastically(
    rows: Floats,
    address: Address,
    devices: Ids,
    limit: float,
    step: float,
    centre: float,
    *,
    of: tuple[Floats, Floats] | None = None,
    threads: int = 1,
) -> None:
    """Replace each x of `rows` [devices, count] by B - centre, where B is one of the two integers around
    a = (x + limit)/step, drawn so that E B = a. x is clamped to +-limit first; the numbers are those of `uniforms`.

    of: values [devices, count] and factors [devices], whose products are the x, instead of what `rows` holds.
    """
    compiled = load_library()

    def set_(row: int, first: int, last: int) -> None:
        part = rows[row, first:last]
        if of is not None:
            np.multiply(of[0][row, first:last], of[1][row], out=part)
        if compiled is None:
            drawn = _by_numpy(reference.uniforms_of, address, devices[row], first, len(part))
            # With many levels, float32 has too few digits for the fractional part.
            above = (np.clip(part.astype(np.float64), -limit, limit) + limit) / step
            lower = np.floor(above)
            part[:] = lower + (drawn < above - lower) - centre
        else:
            at = _address(address, devices[row])
            compiled.airfl_round(at, first, len(part), limit, step, centre, part.ctypes.data)

    _check(rows, 0)
    _spread(set_, rows, threads)


def add_normals(
    rows: Floats, address: Address, devices: Ids | None, scale: float, *, start: int = 0, threads: int = 1
) -> None:
    """Add scale * N(0, 1) to `rows` [devices, count] in place; [1, count] if `devices` is None.

    The numbers are those of `normals`.
    """
    compiled = load_library()

    def add(row: int, first: int, last: int) -> None:
        part, device = rows[row, first:last], None if devices is None else devices[row]
        if compiled is None:
            part += np.float32(scale) * _by_numpy(reference.normals_of, address, device, start + first, len(part))
        else:
            at = _address(address, device)
            compiled.airfl_add_normals(at, start + first, len(part), scale, part.ctypes.data)

    _check(rows, start)
    _spread(add, rows, threads)


def add_normals_at(
    rows: Floats,
    address: Address,
    devices: Ids | None,
    positions: NDArray[np.int64],
    scale: float,
    *,
    threads: int = 1,
) -> None:
    """Add scale * N(0, 1) to `rows` [devices, count] in place, where the numbers are at `positions` of each stream;
    [1, count] if `devices` is None.

    positions: ascending, [count].
    """
    compiled = load_library()
    span = int(positions[-1]) + 1 if len(positions) else 0
    positions = np.ascontiguousarray(positions, dtype=np.int64)
    ids: Ids | Sequence[None] = [None] if devices is None else devices

    def add(start: int, end: int) -> None:
        for row, device in zip(rows[start:end], ids[start:end], strict=True):
            if compiled is not None and span > SPARSE * len(positions):
                at = _address(address, device)
                compiled.airfl_add_normals_at(at, positions.ctypes.data, len(positions), scale, row.ctypes.data)
            elif span > SPARSE * len(positions):
                blocks, places = np.unique(positions >> 2, return_inverse=True)
                drawn = reference.normals_of(reference.words_of_blocks(address, device_word(device), blocks))
                row += np.float32(scale) * drawn[places, positions & 3]
            else:
                drawn = normals(address, None if device is None else [device], span).ravel()
                row += np.float32(scale) * drawn[positions]

    _check(rows, span)
    spread(add, len(rows), threads if rows.size >= PARALLEL else 1)


def _filled(
    name: str,
    transform: Callable[[Words], NDArray[N]],
    dtype: type[N],
    address: Address,
    devices: Ids | None,
    count: int,
    start: int,
    threads: int,
) -> NDArray[N]:
    """Return the numbers that the function `name` of the library, or `transform` of the words, computes."""
    compiled = load_library()
    rows = np.empty((1 if devices is None else len(devices), count), dtype=dtype)

    def fill(row: int, first: int, last: int) -> None:
        device = None if devices is None else devices[row]
        part = rows[row, first:last]
        if compiled is None:
            part[:] = _by_numpy(transform, address, device, start + first, len(part))
        else:
            getattr(compiled, name)(_address(address, device), start + first, len(part), part.ctypes.data)

    _check(rows, start)
    _spread(fill, rows, threads)
    return rows[0] if devices is None else rows


def _by_numpy(
    transform: Callable[[Words], NDArray[N]], address: Address, device: int | None, start: int, count: int
) -> NDArray[N]:
    first, last = start >> 2, (start + count + 3) >> 2
    parts = [
        transform(
            reference.words_of_blocks(address, device_word(device), np.arange(block, min(block + BLOCKS, last)))
        ).ravel()
        for block in range(first, max(last, first + 1), BLOCKS)
    ]
    return np.concatenate(parts)[start & 3 :][:count]


def _ones_by_numpy(address: Address, device: int, trials: int, start: int, count: int) -> Floats:
    each = -(-trials // 32)
    drawn = _by_numpy(lambda words: words, address, device, start * each, count * each)
    return reference.ones_of(drawn.reshape(count, each), trials)


def _spread(work: Callable[[int, int, int], None], rows: NDArray[Any], threads: int) -> None:
    """Call work(row, first, last) for ranges that cover all rows, in equal parts for the threads."""
    count = rows.shape[1]

    def part(start: int, end: int) -> None:
        while start < end:
            row, first = divmod(start, count)
            last = min(count, first + end - start)
            work(row, first, last)
            start += last - first

    spread(part, rows.size, threads if rows.size >= PARALLEL else 1)


def _check(rows: NDArray[Any], start: int) -> None:
    if rows.ndim != 2 or (rows.size and rows.strides[1] != rows.itemsize):
        raise ValueError("rows must be a matrix whose rows are contiguous")
    if not 0 <= start <= LONGEST - rows.shape[1]:
        raise ValueError(f"positions must be from 0 to {LONGEST - 1}, got {start} to {start + rows.shape[1] - 1}")


def _check_trials(trials: int, count: int) -> None:
    if not 1 <= trials <= MOST_TRIALS:
        raise ValueError(f"trials must be from 1 to {MOST_TRIALS}, got {trials}")
    if count * -(-trials // 32) > LONGEST:
        raise ValueError(f"{count} numbers of {trials} bits need more than the {LONGEST} words of a stream")


def _address(address: Address, device: int | None) -> CAddress:
    return CAddress(device_word(device), (ctypes.c_uint32 * 2)(*address.key), address.round_word)


def device_word(device: int | None) -> int:
    """Return the device's part of the counter: 0 for none, so that devices start at 1."""
    return 0 if device is None else int(device) + 1
