"""Fading laws under bounds on the gain: clipped to an interval, or conditioned on it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from channels.draws import Array
from channels.fading.gains import MIN_SHARE, Bounds
from channels.fading.law import ALMOST_ONE, FadingLaw, inverse_power


def bounded(law: FadingLaw, low: float, high: float, bounds: Bounds) -> FadingLaw:
    """Return the law of |h| bounded to [low, high], in units of its mean before bounds, as drawn by `flat_parts`.

    "clip" moves the probability outside the interval to its limits, "redraw" conditions the law on the interval. The
    truncated inverse power E[1/|h|^2; |h| >= g] follows from that of the original law between the limits, and from the
    probabilities at the limits.
    Raises ValueError for "redraw" if the interval has (almost) no probability.
    """
    # The next smaller gain, so that gains exactly on the lower limit are inside.
    below, within = float(law.cdf(np.array(np.nextafter(low, 0.0)))), float(law.cdf(np.array(high)))
    clipped, share = bounds == "clip", within - below
    if not clipped and share < MIN_SHARE:
        raise ValueError(
            f"gains from {low:g} to {high:g} of the mean have a probability below {MIN_SHARE:g}, so none can be "
            "redrawn; widen the limits, or clip to them"
        )

    def cdf(gain: Array) -> Array:
        inside = law.cdf(gain) if clipped else (law.cdf(gain) - below) / share
        return np.asarray(np.where(gain < low, 0.0, np.where(gain >= high, 1.0, np.clip(inside, 0.0, 1.0))))

    def quantile(probability: Array) -> Array:
        inside = probability if clipped else np.minimum(below + share * probability, ALMOST_ONE)
        return np.asarray(np.clip(law.quantile(np.asarray(inside)), low, high))

    negligible = below < MIN_SHARE and 1 - within < MIN_SHARE
    restricted = replace(
        law,
        cdf=cdf,
        quantile=quantile,
        least=low,
        most=min(max(law.most, low), high),
        atoms=tuple(limit for limit, mass in ((low, below), (high, 1 - within)) if clipped and mass > 0),
    )
    mean_square = law.mean_square if negligible else _moment(restricted, low, high, 2)
    before = inverse_power(law)

    def inverse_above(gain: float) -> float:
        """Return E[1/|h|^2; |h| >= gain] before bounds."""
        return before(gain**2 / law.mean_square) / law.mean_square

    def closed(threshold: float) -> float:
        gain = float(np.sqrt(max(threshold, 0.0) * mean_square))
        if gain > high:
            return 0.0
        inner = inverse_above(max(gain, low)) - (inverse_above(np.nextafter(high, np.inf)) if np.isfinite(high) else 0)
        if not clipped:
            return mean_square * inner / share
        on_limits = (below / low**2 if gain <= low and below else 0.0) + (1 - within) / high**2
        return mean_square * (inner + on_limits)

    return replace(
        restricted,
        mean_square=mean_square,
        mean=law.mean if negligible else _moment(restricted, low, high, 1),
        closed_inverse_power=closed,
    )


def _moment(law: FadingLaw, low: float, high: float, order: int) -> float:
    """Return E|h|^order = low^order + integral from low to high of order g^(order - 1) P(|h| > g)."""
    from scipy.integrate import quad

    # In pieces placed at quantiles, so that the quadrature does not miss a narrow law.
    shares = np.array([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6, ALMOST_ONE])
    edges = np.unique(np.clip(np.append(law.quantile(shares), low), low, high))
    pieces = (
        quad(lambda g: order * g ** (order - 1) * (1 - float(law.cdf(np.array(g)))), start, end, epsrel=1e-11)[0]
        for start, end in pairwise(edges)
    )
    return float(low**order + sum(pieces))
