"""Which coordinates are kept: drawn by the server for everybody, or by each device for itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.streams import Purpose

if TYPE_CHECKING:
    from airfl.streams import Streams

Coordinates = NDArray[np.int64]


def kept_entries(ratio: float, dimension: int) -> int:
    """k = floor(p d), at least 1. A p that is k/d written in decimals keeps k, whatever its last binary digit."""
    return max(1, math.floor(ratio * dimension * (1 + 1e-12)))


def shared_coordinates(streams: Streams, round_index: int, dimension: int, kept: int) -> Coordinates:
    """k of d coordinates, the same for all devices of a round, every subset equally likely; ascending, [k]."""
    return _draw(streams.generator(Purpose.MASK, round_index), dimension, kept)


def own_coordinates(streams: Streams, round_index: int, device: int, dimension: int, kept: int) -> Coordinates:
    """k of d coordinates of one device in one round, every subset equally likely; ascending, [k]."""
    return _draw(streams.device_generator(Purpose.MASK, round_index, device), dimension, kept)


def _draw(generator: np.random.Generator, dimension: int, kept: int) -> Coordinates:
    coordinates = generator.choice(dimension, kept, replace=False, shuffle=False)
    coordinates.sort()
    return np.asarray(coordinates, dtype=np.int64)
