"""|h| Rician: a line of sight of constant gain and uniform phase, and K times weaker diffuse paths."""

from typing import Literal

import numpy as np
from scipy.special import chndtr, chndtrix, i0e, i1e, ndtr, ndtri

from channels.draws import Array
from channels.fading.kinds import FlatFading
from channels.fading.law import FadingLaw
from channels.part import LEAST_SCALE, MOST_SCALE, parameter

# From here on a normal distribution of |h| with the same mean and variance is within 2e-11 of the law (its skewness
# falls as K^-1.5), and the non-central chi-square functions of scipy become slow.
NORMAL_FROM_K = 1e6


class Rician(FlatFading):
    """K-factor K, scaled to mean gain 1. A channel without fading is `Fixed`.

    At unit power the mean gain is sqrt(pi / (4 (K + 1))) L_1/2(-K), L_1/2 the Laguerre polynomial, and 2 (K + 1) |h|^2
    is non-central chi-square with 2 degrees of freedom and 2 K as non-centrality (1 - cdf is Marcum's Q_1).
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
        description="K, power of the line of sight over the rest, for fading = rician: a number, or drawn for each "
        "device of a topology by TR 38.901; without line of sight a device of a topology has K = 0",
    )

    def law(self) -> FadingLaw:
        """Of |h|. ValueError where every device of a cell has a K of its own."""
        if self.k == "tr38901":
            raise ValueError("k = 'tr38901' is drawn for each device of a cell: there is no law of all of them")
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
    """E|h|^2 over the square of E|h|, at any K."""
    # L_1/2(-K) = exp(-K/2) ((1 + K) I_0(K/2) + K I_1(K/2)); the scaled Bessel functions do not overflow.
    laguerre = (1 + k) * i0e(k / 2) + k * i1e(k / 2)
    return np.asarray(4 * (k + 1) / np.pi / laguerre**2)


def _spread(k: float) -> float:
    """Standard deviation of |h| over its mean, for large K, to order K^-2 of its square."""
    return float(np.sqrt((1 - 0.75 / k) / (2 * k)))
