"""Random numbers of devices, as the channel asks for them.

The channel draws nothing by itself: it is handed functions that give each device's own uniform numbers, so that the
caller decides what a stream's address is made of, and no device's fade depends on who else takes part.
"""

from collections.abc import Callable

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
