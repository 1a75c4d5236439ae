"""Knife-edge diffraction as both blockage models of TR 38.901 take it."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST_AMPLITUDE = 1e-10
"""What is left of an amplitude at least, 200 dB. Only a screen without edges in reach lets less pass."""


def edge(signs: Array, detour_wavelengths: Array) -> Array:
    """Return F of one edge, eq. 7.6-23 and 7.6-30: from 0 on a path that grazes the edge to 1/2 far behind it.

    Args:
        signs: 1, or -1 for the nearer edge of a screen that a path does not cross.
        detour_wavelengths: By how much the way over the edge is longer than the path, in wavelengths.
    """
    return np.asarray(np.arctan(signs * (np.pi / 2) * np.sqrt(np.pi * np.maximum(detour_wavelengths, 0))) / np.pi)


def loss_db(across: Array, upright: Array) -> Array:
    """Return the loss of a screen in dB, eq. 7.6-22 and 7.6-29, from the sums of F over each pair of edges."""
    return np.asarray(-20 * np.log10(np.maximum(1 - across * upright, _LEAST_AMPLITUDE)))
