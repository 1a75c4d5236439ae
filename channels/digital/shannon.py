"""Shannon's rate, and the limits of what is counted by it."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGEST_COUNT = 2.0**62
LEAST_RATE = 1e-280
"""Bits a resource element; less is nothing (and what a message would take could not even be written down)."""


def bits_per_element(snr: Array) -> Array:
    """log2(1 + SNR), of complex symbols."""
    return np.asarray(np.log1p(snr) / np.log(2.0))


def check_count(elements: float) -> None:
    """OverflowError for more resource elements than a 64-bit integer counts."""
    if elements > LARGEST_COUNT:
        raise OverflowError(f"{elements:.2g} resource elements would be needed, more than can be counted")
