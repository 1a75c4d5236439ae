"""Shannon's rate, and limits of the resulting counts."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_COUNT = 2.0**62
MIN_RATE = 1e-280
"""Smallest rate in bits per resource element; with a lower rate a device does not send, because counts overflow."""


def bits_per_element(snr: Array) -> Array:
    """Return log2(1 + SNR), the capacity of complex symbols."""
    return np.asarray(np.log1p(snr) / np.log(2.0))


def check_count(elements: float) -> None:
    """Raise OverflowError if a number of resource elements exceeds a 64-bit integer."""
    if elements > MAX_COUNT:
        raise OverflowError(f"{elements:.2g} resource elements are needed, more than a 64-bit integer can count")
