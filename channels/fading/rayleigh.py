"""|h| Rayleigh: h circular complex Gaussian, here scaled to mean gain 1 (E|h|^2 = 4/pi)."""

import numpy as np

from channels.fading.law import Array, FadingLaw


def _cdf(gain: Array) -> Array:
    return np.asarray(-np.expm1(-np.pi / 4 * gain**2))


def _quantile(probability: Array) -> Array:
    return np.asarray(np.sqrt(-4 / np.pi * np.log1p(-probability)))


RAYLEIGH = FadingLaw(cdf=_cdf, quantile=_quantile, source="rich scattering without line of sight")
