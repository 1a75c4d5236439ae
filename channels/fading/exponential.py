"""|h| exponential: the law of the PFELS experiments (section 8.1). It is |h|, not |h|^2, that is exponential."""

import numpy as np

from channels.fading.law import Array, FadingLaw


def _cdf(gain: Array) -> Array:
    return np.asarray(-np.expm1(-gain))


def _quantile(probability: Array) -> Array:
    return np.asarray(-np.log1p(-probability))


EXPONENTIAL = FadingLaw(cdf=_cdf, quantile=_quantile, source="PFELS, section 8.1")
