"""Uniform numbers of many devices, each from its own stream of numpy's Philox 4x64-10.

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


def _is_right(loaded: ctypes.CDLL) -> bool:
    """Whether the library's numbers are those of numpy, bit for bit."""
    key, devices = np.array([1, 2], dtype=np.uint64), np.array([0, 7])
    return np.array_equal(_by_library(loaded, key, devices, 11), _one_by_one(key, devices, 11))


SOURCE = c_library.Source(
    file=Path(__file__).with_name("device_uniforms.c"),
    flags=(),
    declare=_declare,
    is_right=_is_right,
    otherwise="random numbers of devices are drawn by numpy",
)
