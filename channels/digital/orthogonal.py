"""Error-free messages at capacity, each device on resource elements of its own: what that costs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGEST_COUNT = 2.0**62
LEAST_RATE = 1e-280
"""Bits a resource element; less is nothing (and what a message would take could not even be written down)."""


@dataclass(frozen=True)
class OrthogonalCost:
    """What each device's transmission takes: bits, resource elements (whole), energy; all [devices]."""

    bits: NDArray[np.int64]
    resource_elements: NDArray[np.int64]
    energy: Array


def capacity_cost(
    bits: int, gains: Array, element_power: Array, noise_std: float, interference: Array | float = 0.0
) -> OrthogonalCost:
    """Cost of `bits` bits a device, error-free at capacity on resource elements of its own.

    The rate is log2(1 + |h_i|^2 p_i / (sigma_0^2 + I_i)) bits a resource element at transmit power p_i =
    `element_power` [devices], with I_i = `interference`, energy on a resource element.
    Raises OverflowError where that takes more resource elements than a 64-bit integer counts.
    """
    rate = np.log1p(gains**2 * element_power / (noise_std**2 + interference)) / np.log(2.0)
    wanted = np.ceil(bits / np.maximum(rate, np.finfo(float).tiny))
    check_count(wanted.sum())
    elements = wanted.astype(np.int64)
    return OrthogonalCost(
        bits=np.full(len(gains), bits, dtype=np.int64),
        resource_elements=elements,
        energy=elements * element_power,
    )


def check_count(elements: float) -> None:
    """OverflowError for more resource elements than a 64-bit integer counts."""
    if elements > LARGEST_COUNT:
        raise OverflowError(f"{elements:.2g} resource elements would be needed, more than can be counted")
