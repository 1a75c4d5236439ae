"""Random numbers of devices, as the channel asks for them.

The channel draws nothing by itself: it is handed functions that give each device's own uniform numbers, so that the
caller decides what a stream's address is made of, and no device's fade depends on who else takes part.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

Draw = Callable[[int], Array]
"""count -> uniform numbers in [0, 1), [devices, count]. A smaller count gives the first columns of a larger one."""


def circular_gaussian(uniforms: Array) -> Complex:
    """CN(0, 1) from pairs of uniforms, [devices, 2 n] -> [devices, n] (Box and Muller: modulus, then phase)."""
    power = -np.log1p(-uniforms[:, 0::2])
    return np.asarray(np.sqrt(power) * np.exp(2j * np.pi * uniforms[:, 1::2]))


def correlate(roots: Complex, numbers: NDArray[Any]) -> NDArray[Any]:
    """Numbers that are independent between antennas, [devices, antennas, ...], times each device's root of their
    correlation matrix, [devices, antennas, antennas]; of the dtype given."""
    devices, antennas, *rest = numbers.shape
    columns = numbers.reshape(devices, antennas, math.prod(rest))
    # A product a device, not one for all: then no bit of a device's row depends on how many rows there are.
    mixed = [root.astype(numbers.dtype, copy=False) @ own for root, own in zip(roots, columns, strict=True)]
    return np.asarray(mixed, dtype=numbers.dtype).reshape(numbers.shape)
