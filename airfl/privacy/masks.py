"""Privacy of a Gaussian release behind a random mask that everybody knows.

Let a contribution have the square mu^2 in units of the noise, and let the mask leave the share S of it, a number from 0
to 1 with mean p. Given the mask the release is Gaussian, so that its delta at epsilon is E delta(eps, mu sqrt(S)). As a
function of the square v = mu^2 S, delta first is convex and then concave: d delta/dv is phi(u)/(2 sqrt(v)) with u =
eps/sqrt(v) - sqrt(v)/2, and the derivative of its logarithm, eps^2/(2 v^2) - 1/8 - 1/(2 v), has one change of sign. The
largest mean is therefore on a chord from 0, where delta is 0, to a square v between p mu^2 and mu^2:

    max over v of p mu^2/v delta(eps, sqrt(v)),

the contribution's square being v with probability p mu^2/v and else 0. The best v is where the chord is a tangent, a
function of eps alone, or the nearer end of its range: p mu^2 is a contribution with equal entries, of which every mask
leaves the same, and mu^2 one with a single entry, of which it leaves all or nothing. These two are attained; between
them the maximum is an upper bound, as a mask of k of d coordinates need not leave just v or nothing.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from airfl.privacy.gaussian import LARGEST_EXACT, gaussian_epsilon, gaussian_log_delta

Array = NDArray[np.float64]

# Points of the tangent's table, and the range of sqrt(v) for which it is computed. Errors of v count in second order.
POINTS = 1 << 14
SMALLEST, LARGEST = 1e-7, 1e8
HALVINGS = 80


def shown(epsilon: Array, mu: float, seen: float) -> tuple[Array, Array]:
    """Return the worst contribution for each epsilon >= 0: mu sqrt(S) where it is seen, and the probability of that.

    Args:
        epsilon: At which delta is to be largest.
        mu: The largest contribution over the noise, as if it were seen as a whole.
        seen: p, the share of its square that the mask leaves on average.
    """
    roots, at = _tangents()
    with np.errstate(divide="ignore"):
        logged = np.log(epsilon)
    # Below the table sqrt(v) is proportional to epsilon.
    tangent = np.exp(np.where(logged < at[0], roots[0] + logged - at[0], np.interp(logged, at, roots)))
    effective = np.clip(tangent, math.sqrt(seen) * mu, mu)
    return effective, np.minimum(seen * (mu / effective) ** 2, 1.0)


def masked_epsilon(delta: float, mu: float, seen: float) -> float:
    """Return an epsilon >= 0 at which the masked release is (epsilon, delta)-private, the smallest one where the worst
    contribution has equal entries or a single one. See `gaussian_epsilon` for a release without a mask."""
    if seen == 1 or mu == 0 or math.isinf(mu):
        return gaussian_epsilon(delta, mu)
    return _masked_epsilon(delta, mu, seen)


@functools.lru_cache(maxsize=1024)
def _masked_epsilon(delta: float, mu: float, seen: float) -> float:
    high = gaussian_epsilon(delta, mu)
    if mu > LARGEST_EXACT or high == 0:
        return high
    from scipy.optimize import brentq  # imported here, so that reading settings does not import it

    target = math.log(delta)

    def excess(epsilon: float) -> float:
        effective, probability = (float(one[0]) for one in shown(np.array([epsilon]), mu, seen))
        return gaussian_log_delta(epsilon, effective) + math.log(probability) - target

    if excess(0.0) <= 0:
        return 0.0
    if excess(high) >= 0:  # by rounding, where the mask hides next to nothing
        return high
    return float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-14))


@functools.cache
def _tangents() -> tuple[Array, Array]:
    """Return log sqrt(v), ascending, and the log epsilon at which the chord to v is a tangent.

    With Mills ratios R, delta is phi(u) (R(u) - R(u + sqrt(v))) and v d delta/dv is phi(u) sqrt(v)/2, so that u solves
    R(u) - R(u + sqrt(v)) = sqrt(v)/2. The left side decreases in u. epsilon is sqrt(v) (u + sqrt(v)/2).
    """
    roots = np.linspace(math.log(SMALLEST), math.log(LARGEST), POINTS)
    size = np.exp(roots)
    low, high = np.full(POINTS, -10.0), np.full(POINTS, 1.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = _difference(middle, size) > size / 2
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return roots, np.log(size * (low + size / 2))


def _difference(u: Array, size: Array) -> Array:
    return np.asarray(math.sqrt(math.pi / 2) * (erfcx(u / math.sqrt(2)) - erfcx((u + size) / math.sqrt(2))))
