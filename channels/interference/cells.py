"""Interference from neighbouring cells that aggregate over the air: what their devices send to their own base station.

Device j of a neighbouring cell sends b_j m_j, with the precoder b_j that its own base station asks of it, and is
received here over the cross channel g_j. After combining with the weights a, an element holds

    sum_j a^H g_j b_j m_j

beside the messages of this cell. The entries of the m_j are independent of those of this cell and of each other, with
mean 0. Given the channels, the sum is thus noise of a known covariance, which differs between the two parts of an
element if the messages are real.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.grid import Packing

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Crossing:
    """Variances of what arrives from neighbouring cells on the two parts of a resource element.

    Attributes:
        real: Of the real part.
        imaginary: Of the imaginary part.
    """

    real: float = 0.0
    imaginary: float = 0.0

    @property
    def mean(self) -> float:
        """Of an observed part, averaged over the phases of the cross channels: half of the power of an element."""
        return (self.real + self.imaginary) / 2

    def __add__(self, other: Crossing) -> Crossing:
        """Return the variances of the sum of two independent contributions."""
        return Crossing(self.real + other.real, self.imaginary + other.imaginary)


def crossing(effective: NDArray[np.complex128], entry_energies: Array, shares: Array, packing: Packing) -> Crossing:
    """Return the variances of what one neighbouring cell sends.

    Args:
        effective: a^H g_j b_j, [devices, blocks, subcarriers].
        entry_energies: E m_j^2 of an entry, [devices].
        shares: Share of the entries on each coefficient, [blocks, subcarriers] (or length 1), with sum 1.
        packing: Whether an element carries one real entry ("real"), or two that make it complex ("iq").
    """
    real = float(entry_energies @ (effective.real**2 * shares).sum(axis=(1, 2)))
    imaginary = float(entry_energies @ (effective.imag**2 * shares).sum(axis=(1, 2)))
    if packing == "iq":
        return Crossing(real + imaginary, real + imaginary)
    return Crossing(real, imaginary)


def mean_crossing_energy(power_gains: Array, element_energies: Array, activity: float) -> float:
    """Return the mean energy on a resource element of what the devices of a neighbouring cell send over links that
    carry bits, on elements of their own.

    A device that has the energy P on each element if it sends on all of them has P/s on each if it sends on a share s,
    so that the mean over all elements, sum_j |g_j|^2 P_j, does not depend on the shares. At capacity, a link under
    noise of this energy on every element is never better than under energies that differ, since log(1 + S/(N + I)) is
    convex in I.

    Args:
        power_gains: |g_j|^2 of the cross channels, [devices].
        element_energies: Energy on an element of a device that sends over the whole band at its limit, [devices].
        activity: Fraction of that energy that is sent on average: 1 if devices send all the time at their limit.
    """
    return activity * float(power_gains @ element_energies)
