"""Flat fading laws: the distribution of the gain |h| as a pair of cdf and quantile function, and derived statistics.

A law is evaluated at random numbers drawn by the caller. The caller thereby controls which random stream a device's
fading comes from, and truncation needs no rejection loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from channels.draws import Array

# The largest double below 1, used for the upper end of a law, which may be infinite.
ALMOST_ONE = 1 - 2.0**-53
# Factor by which a threshold is placed below an atom of the law to include it despite rounding to single precision.
BELOW_ATOM = 1 - 1e-6


@dataclass(frozen=True)
class FadingLaw:
    """Distribution of |h| with unit mean, before bounds on the gain (applied by `bounded`).

    Attributes:
        cdf: P(|h| <= g) at gains g >= 0, of any shape.
        quantile: Inverse of `cdf` at probabilities u in [0, 1), of any shape.
        mean_square: E|h|^2.
        source: Source of the law.
        line_of_sight: K/(K+1), share of the power in the line-of-sight component.
        constant: Whether h is always 1, with phase 0.
        closed_inverse_power: Closed form of `FadeStatistics.inverse_power` at t >= 0, None if there is none.
        mean: E|h|; differs from 1 only under bounds.
        least: The smallest |h|.
        most: The largest |h|, inf if there is none.
        atoms: Gains with positive probability due to bounds.
    """

    cdf: Callable[[Array], Array]
    quantile: Callable[[Array], Array]
    mean_square: float
    source: str
    line_of_sight: float = 0.0
    constant: bool = False
    closed_inverse_power: Callable[[float], float] | None = None
    mean: float = 1.0
    least: float = 0.0
    most: float = float("inf")
    atoms: tuple[float, ...] = ()


@dataclass(frozen=True)
class FadeStatistics:
    """Statistics of a law, for thresholds, limits on the average over fading, and devices that know only their mean
    power. P is E|h|^2.

    Attributes:
        inverse_power: Function of t: E[P/|h|^2; |h|^2 >= t P].
        exceedance: Function of t: P(|h|^2 >= t P).
        threshold_for: Function of a share: the t that this share of realisations reaches.
        least_power: The smallest |h|^2/P.
        most_power: The largest |h|^2/P, inf if there is none.
        amplitude_ratio: E|h|/sqrt(P).
        survival: `exceedance` of several t at once, of any shape.
    """

    inverse_power: Callable[[float], float]
    exceedance: Callable[[float], float]
    threshold_for: Callable[[float], float]
    least_power: float
    most_power: float
    amplitude_ratio: float
    survival: Callable[[Array], Array]


def fade_statistics(law: FadingLaw) -> FadeStatistics:
    """Return the statistics of a law."""
    return FadeStatistics(
        inverse_power=inverse_power(law),
        exceedance=lambda threshold: exceedance(law, threshold),
        threshold_for=lambda share: threshold_for(law, share),
        least_power=law.least**2 / law.mean_square,
        most_power=law.most**2 / law.mean_square,
        amplitude_ratio=float(law.mean / np.sqrt(law.mean_square)),
        survival=lambda thresholds: survival(law, thresholds),
    )


def exceedance(law: FadingLaw, threshold: float) -> float:
    """Return P(|h|^2 >= t E|h|^2), the share of devices (or rounds) above a threshold t."""
    return float(survival(law, np.array(threshold)))


def survival(law: FadingLaw, thresholds: Array) -> Array:
    """Return P(|h|^2 >= t E|h|^2) at thresholds t of any shape."""
    gains = np.sqrt(np.maximum(thresholds, 0.0) * law.mean_square)
    # The next smaller gain, so that gains exactly on the threshold count ("fixed" at t = 1).
    return np.asarray(1 - law.cdf(np.nextafter(gains, 0.0)))


def threshold_for(law: FadingLaw, share: float) -> float:
    """Return t with P(|h|^2 >= t E|h|^2) = share, the inverse of `exceedance`.

    If that t falls on an atom of the law, the whole atom is included, so the resulting share is larger. Raises
    ValueError unless 0 < share <= 1.
    """
    if not 0 < share <= 1:
        raise ValueError(f"the share above a threshold must be greater than 0 and at most 1, got {share:g}")
    gain = float(law.quantile(np.array(1 - share)))
    if gain in law.atoms:
        gain *= BELOW_ATOM
    return float(gain**2 / law.mean_square)


def inverse_power(law: FadingLaw) -> Callable[[float], float]:
    """Return the function t -> E[E|h|^2 / |h|^2 ; |h|^2 >= t E|h|^2], the mean power of channel inversion above t.

    It is E1(t) for Rayleigh fading, and inf at t = 0 if the law has too much weight at small gains (exponential,
    Rayleigh, Rician, Nakagami m <= 1). The relative error is below 1e-8 while `exceedance` is above 1e-7.
    """
    closed = law.closed_inverse_power
    return closed if closed is not None else lambda threshold: _integrated_inverse_power(law, threshold)


def _integrated_inverse_power(law: FadingLaw, threshold: float) -> float:
    """Integrate by parts, with F the distribution of y = |h|^2 / E|h|^2: int_t^inf (F(y) - F(t)) / y^2 dy."""
    from scipy.integrate import quad

    if threshold <= 0:
        return _integrated_from_0(law)

    def distribution(power: float) -> float:
        return float(law.cdf(np.sqrt(np.float64(power * law.mean_square))))

    below = distribution(threshold)
    if below >= ALMOST_ONE:
        return 0.0
    # Over log y, in pieces placed at quantiles, so that the quadrature does not miss a narrow law.
    shares = below + (1 - below) * np.array([1e-12, 1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6, ALMOST_ONE])
    powers = law.quantile(np.minimum(shares, ALMOST_ONE)) ** 2 / law.mean_square
    edges = np.log(np.unique(np.maximum(np.append(powers, threshold), threshold)))
    pieces = (
        quad(lambda s: (distribution(np.exp(s)) - below) * np.exp(-s), start, end, epsabs=1e-14, epsrel=1e-11)[0]
        for start, end in pairwise(edges)
    )
    return float(sum(pieces) + (1 - below) * np.exp(-edges[-1]))


def _integrated_from_0(law: FadingLaw) -> float:
    """Integrate from 0: with F(y) ~ y^a for small y, the integral is finite if a > 1, and the part below y is
    F(y) / (y (a - 1))."""
    low, high = law.quantile(np.array([1e-15, 1e-12])) ** 2 / law.mean_square
    if low <= 0:
        return float("inf")
    if high == low:  # an atom at the lower end
        return _integrated_inverse_power(law, np.nextafter(high, 0.0))
    exponent = np.log(1e3) / np.log(high / low)
    if exponent <= 1 + 1e-3:
        return float("inf")
    # Above `high`, (F(y) - F(high)) / y^2 is integrated, so F(high) / high has to be added.
    return float(_integrated_inverse_power(law, high) + 1e-12 / high * (1 + 1 / (exponent - 1)))
