"""What a flat fading law is: the distribution of the gain |h|, given by its two functions.

A law is evaluated at uniform numbers that the caller draws, so that the caller decides which random stream a device's
fade comes from, and truncation needs no rejection loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bounds = Literal["clip", "redraw"]


@dataclass(frozen=True)
class FadingLaw:
    """Distribution of |h| with unit mean.

    cdf: P(|h| <= g) at gains g [...]; quantile: its inverse at probabilities u in [0, 1) [...]; source: where the law
    is from.
    """

    cdf: Callable[[Array], Array]
    quantile: Callable[[Array], Array]
    source: str


def draw_gains(
    law: FadingLaw, uniforms: Array, *, mean_gain: float, min_gain: float, max_gain: float, bounds: Bounds
) -> NDArray[np.complex128]:
    """Complex gains h = |h| e^(j phi) of flat block fading, phase uniform on the circle.

    uniforms: [devices, 2] in [0, 1), the first column for |h|, the second for the phase.
    bounds: "clip" moves a gain outside [min_gain, max_gain] to the nearer limit; "redraw" is the law conditioned on the
    interval (what drawing again until inside would give), by inversion.
    Returns [devices], complex128.
    """
    probability, turn = uniforms[:, 0], uniforms[:, 1]
    if bounds == "redraw":
        low, high = law.cdf(np.array([min_gain, max_gain]) / mean_gain)
        probability = low + (high - low) * probability
    gain = np.clip(mean_gain * law.quantile(probability), min_gain, max_gain)
    return np.asarray(gain * np.exp(2j * np.pi * turn))
