"""Rayleigh fading: h is circularly symmetric complex Gaussian, scaled to mean gain 1 (E|h|^2 = 4/pi)."""

import numpy as np
from scipy.special import exp1

from channels.draws import Array
from channels.fading.kinds import FlatFading
from channels.fading.law import FadingLaw


class Rayleigh(FlatFading):
    """Rayleigh fading, h ~ CN(0, 4/pi)."""

    name = "rayleigh"
    source = "rich scattering without line of sight"
    gaussian = True

    def law(self) -> FadingLaw:
        """Return the distribution of |h|."""
        return FadingLaw(
            cdf=_cdf,
            quantile=_quantile,
            mean_square=4 / np.pi,
            source=self.source,
            closed_inverse_power=_inverse_power,
        )


def _cdf(gain: Array) -> Array:
    return np.asarray(-np.expm1(-np.pi / 4 * gain**2))


def _quantile(probability: Array) -> Array:
    return np.asarray(np.sqrt(-4 / np.pi * np.log1p(-probability)))


def _inverse_power(threshold: float) -> float:
    """Return E1(t), because |h|^2 / E|h|^2 is exponential."""
    return float(exp1(max(threshold, 0.0)))
