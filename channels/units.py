"""Conversions between decibels and linear ratios, and the speed of light."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

SPEED_OF_LIGHT_M_S = 299_792_458.0


def db_to_linear(decibels: ArrayLike) -> NDArray[np.float64]:
    """Return the power ratio of a value in dB, elementwise."""
    return np.asarray(10.0 ** (np.asarray(decibels, dtype=np.float64) / 10.0))


def linear_to_db(ratio: ArrayLike) -> NDArray[np.float64]:
    """Return the value in dB of a power ratio, elementwise; 0 gives -inf, inf gives inf."""
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(np.asarray(ratio, dtype=np.float64)))


def dbm_to_watt(dbm: ArrayLike) -> NDArray[np.float64]:
    """Return the power in W of a level in dBm (dB relative to 1 mW), elementwise."""
    return db_to_linear(np.asarray(dbm, dtype=np.float64) - 30.0)


def watt_to_dbm(watt: ArrayLike) -> NDArray[np.float64]:
    """Return the level in dBm of a power in W, elementwise; 0 gives -inf, inf gives inf."""
    return linear_to_db(watt) + 30.0


def subcarrier_power_w(tx_power_dbm: ArrayLike, subcarriers: int) -> NDArray[np.float64]:
    """Return the power in W on each of `subcarriers` subcarriers with equal power, [devices] from [devices].

    It is the mean power of the complex symbol on a resource element; with a real payload it is all on the real part.
    """
    if subcarriers < 1:
        raise ValueError(f"subcarriers must be at least 1, got {subcarriers}")
    return dbm_to_watt(tx_power_dbm) / subcarriers
