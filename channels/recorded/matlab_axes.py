"""Axes of length 1 at the end of an array, which MATLAB drops, and which the arrays of a channel need."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from channels.recorded.layout import (
    AZIMUTH,
    BESIDE,
    BLOCK_TIMES,
    DELAYS,
    DOPPLER,
    ELEVATION,
    FREQUENCIES,
    LEAKED_POWER,
    PATH_GAINS,
)

Shape = tuple[int, ...]
OF_PATHS = {PATH_GAINS: 4, **dict.fromkeys((DELAYS, DOPPLER, AZIMUTH, ELEVATION), 3)}
"""Number of axes of the arrays of paths."""
OF_BLOCKS, OF_SUBCARRIERS = 4, 5
"""Number of axes of responses that end with blocks, and of those that end with subcarriers."""


def with_last_axes(shapes: Mapping[str, Shape], matlab: Collection[str]) -> dict[str, Shape]:
    """Return the shapes of a file's arrays with the last axes that MATLAB has dropped.

    Arrays of paths beside delays have four axes, and those beside them three. Gains of four axes that list the starts
    of so many blocks, more than one, and no more than one frequency, end with the blocks: their single subcarrier was
    dropped.

    Args:
        shapes: The shapes by name.
        matlab: Names of the arrays that MATLAB wrote.
    """
    found = dict(shapes)
    for name in shapes:
        prefix = name[: len(name) - len(name.rpartition("/")[2])]
        own = name[len(prefix) :]
        if name in matlab and f"{prefix}{PATH_GAINS}" in shapes and f"{prefix}{DELAYS}" in shapes:
            found[name] = _padded(shapes[name], OF_PATHS.get(own, 0))
        elif name in matlab and own not in BESIDE and _ends_with_blocks(shapes, name, prefix):
            found[name] = _padded(shapes[name], OF_SUBCARRIERS)
        elif name in matlab and own == LEAKED_POWER:
            found[name] = _padded(shapes[name], OF_BLOCKS)
    return found


def _padded(shape: Shape, axes: int) -> Shape:
    return (*shape, *(1 for _ in range(axes - len(shape))))


def _ends_with_blocks(shapes: Mapping[str, Shape], name: str, prefix: str) -> bool:
    shape, times = shapes[name], shapes.get(f"{prefix}{BLOCK_TIMES}", ())
    blocks, frequencies = math.prod(times), math.prod(shapes.get(f"{prefix}{FREQUENCIES}", ()))
    return len(shape) == OF_BLOCKS and blocks == shape[-1] > 1 and frequencies == 1
