"""Random numbers that devices use for noise and stochastic rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from airfl.runtime.sampling import PARALLEL, spread
from airfl.runtime.streams import Purpose
from airfl.runtime.threads import run_threads
from airfl.uplinks.stages.stage import Batch, Round


def of_each_device(
    opened: Round,
    batch: Batch,
    purpose: Purpose,
    draw: Callable[[np.random.Generator], NDArray[Any]],
    dtype: DTypeLike,
) -> NDArray[Any]:
    """Return random numbers for the entries that each device of a chunk sends, [chunk, entries].

    Each device has its own generator, so that several threads can draw at once.

    Args:
        opened: The round.
        batch: The messages of the chunk; where they hold a part of the coordinates, the numbers are those of that part.
        purpose: What the numbers are for.
        draw: generator -> numbers of one device, one for each coordinate before any are left out.
        dtype: Type of the numbers.
    """
    devices = opened.devices[batch.rows].tolist()
    numbers = np.empty(batch.values.shape, dtype=dtype)

    def fill(start: int, end: int) -> None:
        for row, device in enumerate(devices[start:end], start):
            drawn = draw(opened.streams.device_generator(purpose, opened.index, device))
            numbers[row] = drawn if batch.coordinates is None else drawn[batch.coordinates]

    spread(fill, len(devices), run_threads() if numbers.size >= PARALLEL else 1)
    return numbers
