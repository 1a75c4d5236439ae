"""Phase noise of a free-running oscillator: a Wiener process, whose effect on an OFDM symbol is in closed form.

The phase of an oscillator with the linewidth B (full width at half maximum of its Lorentzian spectrum) changes in a
time t by a normal number with the variance 2 pi B t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from channels.draws import Array


@dataclass(frozen=True)
class SymbolPhaseNoise:
    """Phase noise over the useful part of an OFDM symbol.

    A subcarrier is multiplied by J, the mean of e^(j phi) over the useful part, and the rest of its power falls on
    other subcarriers.

    Attributes:
        variance: a = 2 pi B T, variance of the change of the phase over the useful part of duration T.
    """

    variance: float

    @property
    def kept(self) -> float:
        """E|J|^2 = 2 (c - 1 + e^-c)/c^2 with c = a/2: the share of the power that stays on its subcarrier."""
        c = self.variance / 2
        if c < 1e-4:  # the terms cancel
            return 1.0 - c / 3 + c**2 / 12
        return 2.0 * (c + math.expm1(-c)) / c**2

    @property
    def mean(self) -> float:
        """E[J] = (1 - e^-c)/c for a phase of 0 at the beginning of the useful part."""
        c = self.variance / 2
        return -math.expm1(-c) / c if c else 1.0

    @property
    def common_variance(self) -> float:
        """a/3, variance of the mean of the phase over the useful part (the common phase error), from its beginning."""
        return self.variance / 3

    @property
    def in_phase(self) -> float:
        """1/2, the share of the interference between subcarriers that has the phase of the signal: 3/4 of its power
        on one part and 1/4 on the other are half in phase and half on both."""
        return 0.5

    @property
    def scattered(self) -> float:
        """Power of the inter-carrier interference over that of the useful signal, for equal power on all
        subcarriers."""
        return (1.0 - self.kept) / self.kept


def symbol_phases(normals: Array, variance: float, gap_variance: float) -> Array:
    """Return the mean phase of consecutive symbols, [devices, symbols], for a phase of 0 where the first one begins.

    Args:
        normals: Independent standard normal numbers, [devices, symbols, 3].
        variance: Variance of the change of the phase over the useful part of a symbol.
        gap_variance: The same from the end of a useful part to the beginning of the next.
    """
    ends = math.sqrt(variance) * normals[..., 0]
    # Of a Wiener process that ends at w, the mean is w/2 but for a normal number of variance a/12.
    means = ends / 2 + math.sqrt(variance / 12) * normals[..., 1]
    steps = np.cumsum(ends + math.sqrt(gap_variance) * normals[..., 2], axis=1)
    return np.asarray(means + np.concatenate([np.zeros_like(steps[:, :1]), steps[:, :-1]], axis=1))
