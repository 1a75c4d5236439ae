"""Random masks: coordinates drawn once for all devices of a round, or independently per device."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.streams import Purpose

if TYPE_CHECKING:
    from airfl.runtime.streams import Streams

Coordinates = NDArray[np.int64]

MANY = 1 << 18
"""From this many coordinates on, masks are drawn from random bytes, about seven times as fast as by a permutation."""
SPARSE = 32
"""Coordinates are put in order by marking them, unless there are fewer than one in so many."""
REMEMBERED, SHORT = 128, 1 << 15
"""So many masks of at most so many coordinates are remembered, since a device uses its mask more than once a round."""


def kept_entries(ratio: float, dimension: int) -> int:
    """Return k = floor(p d), at least 1. The tolerance ensures that p = k/d, rounded to a float, yields k."""
    return max(1, math.floor(ratio * dimension * (1 + 1e-12)))


def shared_coordinates(streams: Streams, round_index: int, dimension: int, kept: int) -> Coordinates:
    """Return k of d coordinates for all devices of a round, with every subset equally likely; ascending, [k]."""
    return _draw(streams.generator(Purpose.MASK, round_index), dimension, kept)


def per_device_coordinates(streams: Streams, round_index: int, device: int, dimension: int, kept: int) -> Coordinates:
    """Return k of d coordinates for one device in a round, with every subset equally likely; ascending, [k].

    The array is read-only.
    """
    draw = _remembered if kept <= SHORT else _of_device
    return draw(streams, round_index, device, dimension, kept)


def _of_device(streams: Streams, round_index: int, device: int, dimension: int, kept: int) -> Coordinates:
    drawn = _draw(streams.device_generator(Purpose.MASK, round_index, device), dimension, kept)
    drawn.flags.writeable = False
    return drawn


_remembered = functools.lru_cache(maxsize=REMEMBERED)(_of_device)


def _draw(generator: np.random.Generator, dimension: int, kept: int) -> Coordinates:
    if dimension >= MANY and 64 * kept >= dimension:
        return draw_by_bytes(generator, dimension, kept)
    coordinates = generator.choice(dimension, kept, replace=False, shuffle=False)
    if SPARSE * kept < dimension:
        coordinates.sort()
        return np.asarray(coordinates, dtype=np.int64)
    marks = np.zeros(dimension, dtype=np.bool_)
    marks[coordinates] = True
    return np.flatnonzero(marks)


def draw_by_bytes(generator: np.random.Generator, dimension: int, kept: int) -> Coordinates:
    """Draw k of d coordinates, with every subset equally likely, in one pass over d random bytes.

    Every coordinate is taken independently with a probability slightly above k/d, and the surplus is dropped at random.
    Given the number taken, every subset of that size is equally likely, and so is every subset of k of them. If too few
    are taken, the draw is repeated, which favors no subset either.
    """
    below = min(kept * 256 // dimension + 2, 256)
    while True:
        bytes_ = generator.bit_generator.random_raw(-(-dimension // 8)).view(np.uint8)[:dimension]
        taken = np.flatnonzero(bytes_ < below)
        if len(taken) >= kept:
            break
    dropped = generator.choice(len(taken), len(taken) - kept, replace=False, shuffle=False)
    stays = np.ones(len(taken), dtype=np.bool_)
    stays[dropped] = False
    return np.asarray(taken[stays], dtype=np.int64)
