"""Random numbers for devices.

This package has no random state. It is given functions that return uniform numbers from each device's own stream, so
that the caller controls the addresses of the streams, and a device's fading does not depend on the other devices.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

Draw = Callable[[int], Array]
"""count -> uniform numbers in [0, 1), [devices, count]. A smaller count returns the first columns of a larger one."""


def circular_gaussian(uniforms: Array) -> Complex:
    """Transform pairs of uniforms to CN(0, 1), [..., 2 n] -> [..., n] (Box-Muller: modulus, then phase).

    Neighbours on the last axis are a pair, for any number of axes. Raises ValueError if that axis has an odd length.
    """
    uniforms = np.asarray(uniforms)
    if uniforms.ndim == 0 or uniforms.shape[-1] % 2:
        raise ValueError(f"the last axis of uniforms must have an even length, got shape {list(uniforms.shape)}")
    power = -np.log1p(-uniforms[..., 0::2])
    return np.asarray(np.sqrt(power) * np.exp(2j * np.pi * uniforms[..., 1::2]))


def correlate(roots: Complex, numbers: NDArray[Any]) -> NDArray[Any]:
    """Correlate numbers that are independent between antennas, [devices, antennas, ...].

    roots: square root of each device's correlation matrix, [devices, antennas, antennas]. The dtype is kept.
    """
    devices, antennas, *rest = numbers.shape
    columns = numbers.reshape(devices, antennas, math.prod(rest))
    # One product per device, so that a device's row does not depend on the number of rows, bit for bit.
    products = [root.astype(numbers.dtype, copy=False) @ own for root, own in zip(roots, columns, strict=True)]
    return np.asarray(products, dtype=numbers.dtype).reshape(numbers.shape)
