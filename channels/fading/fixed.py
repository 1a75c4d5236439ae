"""No fading: h is the mean gain, with phase 0."""

import numpy as np

from channels.draws import Array
from channels.fading.law import FadingLaw, LawParameters


def fixed(parameters: LawParameters) -> FadingLaw:
    """h = 1."""
    return FadingLaw(
        cdf=_cdf,
        quantile=_quantile,
        mean_square=1.0,
        source="additive noise alone",
        constant=True,
        closed_inverse_power=lambda threshold: float(threshold <= 1),
    )


def _cdf(gain: Array) -> Array:
    return np.where(np.asarray(gain) >= 1, 1.0, 0.0)


def _quantile(probability: Array) -> Array:
    return np.ones(np.shape(probability))
