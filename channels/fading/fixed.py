"""No fading: h is the mean gain with phase 0."""

import numpy as np

from channels.draws import Array
from channels.fading.kinds import FlatFading
from channels.fading.law import FadingLaw


class Fixed(FlatFading):
    """A channel without fading, h = 1."""

    name = "fixed"
    source = "additive noise alone"
    line_of_sight = True

    def law(self) -> FadingLaw:
        """Return the distribution of |h|."""
        return FadingLaw(
            cdf=_cdf,
            quantile=_quantile,
            mean_square=1.0,
            source=self.source,
            constant=True,
            most=1.0,
            closed_inverse_power=lambda threshold: float(threshold <= 1),
        )


def _cdf(gain: Array) -> Array:
    return np.where(np.asarray(gain) >= 1, 1.0, 0.0)


def _quantile(probability: Array) -> Array:
    return np.ones(np.shape(probability))
