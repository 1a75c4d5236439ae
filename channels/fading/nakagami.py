"""Nakagami-m fading: |h|^2 is gamma distributed with shape m. m = 1 is Rayleigh, large m approaches no fading."""

from collections.abc import Callable

import numpy as np
from scipy.special import exp1, gammainc, gammaincc, gammaincinv, poch

from channels.draws import Array
from channels.fading.kinds import FlatFading
from channels.fading.law import FadingLaw
from channels.part import parameter


class Nakagami(FlatFading):
    """Nakagami fading with shape m, scaled to mean gain 1: E|h|^2 = m (Gamma(m) / Gamma(m + 1/2))^2.

    For a channel without fading, use `Fixed`.
    """

    name = "nakagami"
    source = "Nakagami, The m-distribution (1960)"

    m: float = parameter(default=1.0, ge=0.5, key="nakagami_m", description="shape m, for fading = nakagami")

    def law(self) -> FadingLaw:
        """Return the distribution of |h|."""
        m, mean_square = self.m, float(self.m / poch(self.m, 0.5) ** 2)

        def cdf(gain: Array) -> Array:
            return np.asarray(gammainc(m, m * gain**2 / mean_square))

        def quantile(probability: Array) -> Array:
            return np.asarray(np.sqrt(gammaincinv(m, probability) * mean_square / m))

        return FadingLaw(
            cdf=cdf,
            quantile=quantile,
            mean_square=mean_square,
            source=self.source,
            closed_inverse_power=_inverse_power(m),
        )


def _inverse_power(m: float) -> Callable[[float], float] | None:
    """Return t -> m Gamma(m - 1, m t) / Gamma(m), the integral of the gamma density over y; m/(m - 1) at t = 0."""
    if m < 1:  # scipy's incomplete gamma function supports positive orders only
        return None
    if m == 1:
        return lambda threshold: float(exp1(max(threshold, 0.0)))
    return lambda threshold: float(m / (m - 1) * gammaincc(m - 1, m * max(threshold, 0.0)))
