"""Decibels and ratios: the only conversions."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def db_to_linear(decibels: ArrayLike) -> NDArray[np.float64]:
    """Power ratio of a value in dB, elementwise."""
    return np.asarray(10.0 ** (np.asarray(decibels, dtype=np.float64) / 10.0))


def linear_to_db(ratio: ArrayLike) -> NDArray[np.float64]:
    """Value in dB of a power ratio, elementwise; 0 gives -inf, inf gives inf."""
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(np.asarray(ratio, dtype=np.float64)))
