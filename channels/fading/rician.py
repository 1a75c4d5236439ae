"""Rician fading: a line of sight of constant gain and uniform phase, and a diffuse part with 1/K of its power."""

from typing import Literal

import numpy as np
from scipy.special import chndtr, chndtrix, i0e, i1e, ndtr, ndtri

from channels.draws import Array
from channels.fading.kinds import FlatFading
from channels.fading.law import FadingLaw
from channels.part import LEAST_SCALE, MOST_SCALE, parameter

# From this K on, a normal distribution of |h| with the same mean and variance is within 2e-11 of the law (the skewness
# falls as K^-1.5), and scipy's non-central chi-square functions become slow.
NORMAL_FROM_K = 1e6


class Rician(FlatFading):
    """Rician fading with K factor `k`, scaled to mean gain 1. For a channel without fading, use `Fixed`.

    At unit power, the mean gain is sqrt(pi / (4 (K + 1))) L_1/2(-K) with the Laguerre function L_1/2, and
    2 (K + 1) |h|^2 is non-central chi-square with 2 degrees of freedom and non-centrality 2 K (1 - cdf is the Marcum Q
    function Q_1).
    """

    name = "rician"
    source = "Rice, Mathematical analysis of random noise (1945), section 3.10"
    line_of_sight = True

    k: float | Literal["tr38901"] = parameter(
        default=1.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="rician_k",
        description="K factor, power of the line of sight over that of the diffuse part, for fading = rician: a "
        "number, or drawn for each device of a topology by TR 38.901 (K = 0 without line of sight)",
    )

    def law(self) -> FadingLaw:
        """Return the distribution of |h|; raise ValueError if K is drawn for each device."""
        if self.k == "tr38901":
            raise ValueError(
                "k = 'tr38901' is drawn for each device of a cell, so there is no common law; give a number"
            )
        k = float(self.k)
        mean_square = float(rician_mean_square(k))

        def cdf(gain: Array) -> Array:
            if k >= NORMAL_FROM_K:
                return np.asarray(ndtr((gain - 1) / _spread(k)))
            return np.asarray(chndtr(2 * (k + 1) / mean_square * gain**2, 2, 2 * k))

        def quantile(probability: Array) -> Array:
            if k >= NORMAL_FROM_K:
                return np.asarray(np.maximum(1 + _spread(k) * ndtri(probability), 0))
            return np.asarray(np.sqrt(chndtrix(probability, 2, 2 * k) * mean_square / (2 * (k + 1))))

        return FadingLaw(
            cdf=cdf,
            quantile=quantile,
            mean_square=mean_square,
            source=self.source,
            line_of_sight=float(k / (k + 1)),
        )


def rician_mean_square(k: float | Array) -> Array:
    """Return E|h|^2 / (E|h|)^2 at K factor k."""
    # L_1/2(-K) = exp(-K/2) ((1 + K) I_0(K/2) + K I_1(K/2)); the scaled Bessel functions do not overflow.
    laguerre = (1 + k) * i0e(k / 2) + k * i1e(k / 2)
    return np.asarray(4 * (k + 1) / np.pi / laguerre**2)


def _spread(k: float) -> float:
    """Standard deviation of |h| over its mean for large K; its square is accurate to order K^-2."""
    return float(np.sqrt((1 - 0.75 / k) / (2 * k)))
