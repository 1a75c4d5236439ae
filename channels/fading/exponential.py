"""Exponential gains, as in the PFELS experiments (section 8.1). Note that |h| is exponential, not |h|^2."""

import numpy as np
from scipy.special import expn

from channels.draws import Array
from channels.fading.kinds import FlatFading
from channels.fading.law import FadingLaw


class Exponential(FlatFading):
    """Exponential gains, |h| ~ Exp(1), with E|h|^2 = 2."""

    name = "exponential"
    source = "PFELS, section 8.1"

    def law(self) -> FadingLaw:
        """Return the distribution of |h|."""
        return FadingLaw(
            cdf=_cdf,
            quantile=_quantile,
            mean_square=2.0,
            source=self.source,
            closed_inverse_power=_inverse_power,
        )


def _cdf(gain: Array) -> Array:
    return np.asarray(-np.expm1(-gain))


def _quantile(probability: Array) -> Array:
    return np.asarray(-np.log1p(-probability))


def _inverse_power(threshold: float) -> float:
    """Return 2 E2(a)/a with a = sqrt(2 t), the integral of 2 exp(-g)/g^2 above a (Abramowitz and Stegun, 5.1.4)."""
    least_gain = float(np.sqrt(2 * max(threshold, 0.0)))
    return 2 * float(expn(2, least_gain)) / least_gain if least_gain > 0 else float("inf")
