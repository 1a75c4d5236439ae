"""Which coordinates are kept: drawn by the server for everybody, or by each device for itself."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.streams import Purpose

if TYPE_CHECKING:
    from torch import Tensor

    from airfl.stages.stage import Batch
    from airfl.streams import Streams

Coordinates = NDArray[np.int64]

MANY = 1 << 18
"""Coordinates from which on they are drawn by random bytes, some seven times as fast as by a permutation."""


def kept_entries(ratio: float, dimension: int) -> int:
    """k = floor(p d), at least 1. A p that is k/d written in decimals keeps k, whatever its last binary digit."""
    return max(1, math.floor(ratio * dimension * (1 + 1e-12)))


def shared_coordinates(streams: Streams, round_index: int, dimension: int, kept: int) -> Coordinates:
    """k of d coordinates, the same for all devices of a round, every subset equally likely; ascending, [k]."""
    return _draw(streams.generator(Purpose.MASK, round_index), dimension, kept)


def own_coordinates(streams: Streams, round_index: int, device: int, dimension: int, kept: int) -> Coordinates:
    """k of d coordinates of one device in one round, every subset equally likely; ascending, [k]."""
    return _draw(streams.device_generator(Purpose.MASK, round_index, device), dimension, kept)


def keep(batch: Batch, kept: Tensor, coordinates: Coordinates) -> Batch:
    """The messages at these coordinates, the same for all of them; ascending, [k], on the batch's device and here."""
    part, own = None, kept
    if batch.part is not None:
        begin, end = batch.part.start, batch.part.stop
        part = slice(*np.searchsorted(coordinates, (begin, end)).tolist())
        own, coordinates = kept[part] - begin, coordinates[part]
    values = batch.values.gather(1, own.expand(len(batch.values), -1))
    return replace(batch, values=values, known_norms=None, coordinates=coordinates, part=part)


def _draw(generator: np.random.Generator, dimension: int, kept: int) -> Coordinates:
    if dimension >= MANY and 64 * kept >= dimension:
        return by_bytes(generator, dimension, kept)
    coordinates = generator.choice(dimension, kept, replace=False, shuffle=False)
    coordinates.sort()
    return np.asarray(coordinates, dtype=np.int64)


def by_bytes(generator: np.random.Generator, dimension: int, kept: int) -> Coordinates:
    """The same law in a pass over d random bytes.

    Every coordinate is taken by itself with a probability a little over k/d, and what is too many is dropped at random:
    given how many are taken, every subset of that size is equally likely, and so is every one of k of them. Where too
    few are taken it is done again, which favours no subset either.
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
