"""Gaussian fields over the plane, whose value at a place does not depend on where and when else it is asked for.

A field is a sum of plane waves (Cai and Giannakis, IEEE Transactions on Vehicular Technology 52(4), 2003).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]

WAVES = 512
"""Number of plane waves of a field."""
COLUMNS = 4
"""Uniform numbers of each wave."""
_MIN_UNIFORM = 2.0**-54
_ROWS = 4096


def field(uniforms: Array, correlation_m: float, places_m: Array) -> Array:
    """Return the values N(0, 1) of a field with correlation exp(-d/correlation_m) at a distance of d, [places].

    Over fields, the value at a place is exactly N(0, 1), and the correlation is exact. Over the plane, the variance and
    the correlation of a single field are within some 1/sqrt(WAVES) of these; its wave numbers are one in each of
    `WAVES` equal shares of their law.

    Args:
        uniforms: Uniform numbers of the field, [WAVES, COLUMNS].
        correlation_m: Distance in m at which the correlation falls to 1/e, positive.
        places_m: x and y in m, [places, 2].
    """
    shares = (np.arange(len(uniforms)) + uniforms[:, 0]) / len(uniforms)
    # The isotropic spectrum of exp(-d/c) in the plane: P(|k| < q) = 1 - 1/sqrt(1 + (c q)^2).
    numbers = np.sqrt((1 - shares) ** -2.0 - 1) / correlation_m
    angles = 2 * np.pi * uniforms[:, 1]
    waves = numbers[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    cosines, sines = ndtri(np.maximum(uniforms[:, 2:4], _MIN_UNIFORM)).T / np.sqrt(len(uniforms))
    values = np.empty(len(places_m))
    for start in range(0, len(places_m), _ROWS):
        rows = slice(start, start + _ROWS)
        # One product for each coordinate, so that a place has the same value among any others, bit for bit.
        phases = places_m[rows, :1] * waves[:, 0] + places_m[rows, 1:] * waves[:, 1]
        values[rows] = (cosines * np.cos(phases) + sines * np.sin(phases)).sum(axis=1)
    return values
