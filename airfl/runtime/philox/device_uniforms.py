"""Uniform numbers of many devices, each from its own stream of numpy's Philox 4x64-10, and orders by them.

device_uniforms.c computes them where a C compiler is found, else numpy, with the same bits.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.streams import Purpose, Streams
from airfl.storage import c_library

MANY_DEVICES, FEW_NUMBERS = 64, 16
"""From this number of devices on, and up to this count of numbers, numpy is faster for all devices at once."""
# Philox 4x64 with ten rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011).
ROUNDS = 10
MULTIPLIERS = np.array([[0xD2E7470EE14C6C93], [0xCA5A826395121157]], dtype=np.uint64)
KEY_STEPS = np.array([[0x9E3779B97F4A7C15], [0xBB67AE8584CAA73B]], dtype=np.uint64)
LOW_HALF, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)

NOTHING = -1
"""In an order, where a device has no further item."""
DRAWN_AT_ONCE = 1 << 22
"""Most random numbers that numpy draws at a time to order items, unless a single device needs more."""

Key = NDArray[np.uint64]
Ids = NDArray[np.int64]
Uniforms = NDArray[np.float64]


def draw(
    streams: Streams,
    purpose: Purpose,
    round_index: int | None,
    devices: Sequence[int] | NDArray[np.int64],
    count: int,
) -> Uniforms:
    """Return uniform numbers in [0, 1) from each device's own stream, [devices, count].

    They are the first draws of `Streams.device_generator`.

    Args:
        streams: The streams of the run.
        purpose: What they are for.
        round_index: t, or None for no round.
        devices: Ids of the devices.
        count: How many for each.
    """
    key, devices = streams.key(purpose, round_index), np.asarray(devices, dtype=np.int64)
    compiled = load_library()
    if compiled is not None:
        return _by_library(compiled, key, devices, count)
    by_numpy = _of_all if len(devices) >= MANY_DEVICES and count <= FEW_NUMBERS else _one_by_one
    return by_numpy(key, devices, count)


def orders(
    streams: Streams, purpose: Purpose, round_index: int | None, devices: Ids, sizes: Ids, largest: int, passes: int
) -> Ids:
    """Return each device's items in random orders, one for each pass, [devices, passes, largest of `sizes` + 1].

    The items of a device are sorted by the uniform numbers of its stream. Every pass has `largest` numbers, so that
    an order does not depend on the other devices. The last column has no items.

    Args:
        streams: The streams of the run.
        purpose: What they are for.
        round_index: t, or None for no round.
        devices: Ids of the devices.
        sizes: Number of items of each of them, filled up with `NOTHING`.
        largest: Number of items of the device with the most, also of those that are not asked for.
        passes: Number of orders of each device.
    """
    devices, sizes = np.asarray(devices, dtype=np.int64), np.asarray(sizes, dtype=np.int64)
    compiled = load_library()
    if compiled is not None:
        return _orders_by_library(compiled, streams.key(purpose, round_index), devices, sizes, largest, passes)
    width = int(sizes.max(initial=0)) + 1
    ordered = np.full((len(devices), passes, width), NOTHING)
    at_once = max(1, DRAWN_AT_ONCE // (passes * largest))
    for start in range(0, len(devices), at_once):  # so that memory does not grow with the devices' largest number
        some = slice(start, start + at_once)
        uniforms = draw(streams, purpose, round_index, devices[some], passes * largest)
        numbers = uniforms.reshape(-1, passes, largest)[..., : width - 1]
        ordered[some, :, :-1] = _orders_by_numpy(numbers, sizes[some])
    return ordered


def _orders_by_numpy(uniforms: Uniforms, sizes: Ids) -> Ids:
    """Return the orders by these numbers of each pass, which are as many as the largest of `sizes`."""
    absent = np.arange(uniforms.shape[2]) >= sizes[:, None, None]
    ordered = np.argsort(np.where(absent, np.inf, uniforms), axis=-1, kind="stable")
    return np.where(absent, NOTHING, ordered)


def _orders_by_library(compiled: ctypes.CDLL, key: Key, devices: Ids, sizes: Ids, largest: int, passes: int) -> Ids:
    devices, sizes = np.ascontiguousarray(devices), np.ascontiguousarray(sizes)
    width = int(sizes.max(initial=0)) + 1
    ordered = np.empty((len(devices), passes, width), dtype=np.int64)
    given = key.ctypes.data, devices.ctypes.data, sizes.ctypes.data, len(devices), passes, largest, width
    if compiled.airfl_device_orders(*given, ordered.ctypes.data):
        raise MemoryError("no memory for the order of a device's items")
    return ordered


def _by_library(compiled: ctypes.CDLL, key: Key, devices: Ids, count: int) -> Uniforms:
    key, devices = np.ascontiguousarray(key), np.ascontiguousarray(devices)
    uniforms = np.empty((len(devices), count))
    pointers = key.ctypes.data, devices.ctypes.data
    compiled.airfl_device_uniforms(*pointers, len(devices), count, uniforms.ctypes.data)
    return uniforms


def _one_by_one(key: Key, devices: Ids, count: int) -> Uniforms:
    bits = np.random.Philox(key=key)
    generator = np.random.Generator(bits)
    start = bits.state
    uniforms = np.empty((len(devices), count))
    for row, device in enumerate(devices.tolist()):
        start["state"]["counter"] = np.array([0, 0, 0, device + 1], dtype=np.uint64)
        bits.state = start
        generator.random(out=uniforms[row])
    return uniforms


def _of_all(key: Key, devices: Ids, count: int) -> Uniforms:
    blocks = -(-count // 4)
    # Words 0 and 2 of each counter, then 1 and 3. numpy increments before it draws, so word 0 starts at 1.
    even, odd = np.zeros((2, 2, len(devices) * blocks), dtype=np.uint64)
    even[0] = np.tile(np.arange(1, blocks + 1, dtype=np.uint64), len(devices))
    odd[1] = np.repeat(devices.astype(np.uint64) + np.uint64(1), blocks)
    keys = key[:, None]
    for _ in range(ROUNDS):
        even, odd = _high_words(even)[::-1] ^ odd ^ keys, (even * MULTIPLIERS)[::-1]
        keys = keys + KEY_STEPS
    words = np.stack([even[0], odd[0], even[1], odd[1]], axis=1).reshape(len(devices), 4 * blocks)
    return np.asarray((words[:, :count] >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def _high_words(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the upper 64 bits of the 128-bit products with the multipliers, by 32-bit halves."""
    low, high = words & LOW_HALF, words >> HALF
    factor_low, factor_high = MULTIPLIERS & LOW_HALF, MULTIPLIERS >> HALF
    middle = high * factor_low + (low * factor_low >> HALF)
    carried = (low * factor_high + (middle & LOW_HALF)) >> HALF
    return np.asarray(high * factor_high + (middle >> HALF) + carried, dtype=np.uint64)


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """Return the compiled library; None without a C compiler, or if the library's numbers are not those of numpy."""
    return c_library.load(SOURCE)


def _declare(loaded: ctypes.CDLL) -> None:
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    loaded.airfl_device_uniforms.argtypes = (pointer, pointer, size, size, pointer)
    loaded.airfl_device_uniforms.restype = None
    loaded.airfl_device_orders.argtypes = (pointer, pointer, pointer, size, size, size, size, pointer)
    loaded.airfl_device_orders.restype = ctypes.c_int


def _is_right(loaded: ctypes.CDLL) -> bool:
    """Whether the library's numbers and orders are those of numpy, bit for bit."""
    key, devices, sizes = np.array([1, 2], dtype=np.uint64), np.array([0, 7]), np.array([5, 3])
    uniforms = _one_by_one(key, devices, 12)
    ordered = _orders_by_library(loaded, key, devices, sizes, largest=6, passes=2)
    return np.array_equal(_by_library(loaded, key, devices, 12), uniforms) and np.array_equal(
        ordered[..., :-1], _orders_by_numpy(uniforms.reshape(2, 2, 6)[..., :5], sizes)
    )


SOURCE = c_library.Source(
    file=Path(__file__).with_name("device_uniforms.c"),
    flags=(),
    declare=_declare,
    is_right=_is_right,
    otherwise="random numbers of devices are drawn by numpy",
)
