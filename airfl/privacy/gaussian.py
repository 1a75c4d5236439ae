"""Exact privacy of the Gaussian mechanism (Balle and Wang 2018), and of one subsampled round of it.

Throughout, mu is the sensitivity over the standard deviation of the noise.
"""

from __future__ import annotations

import functools
import math

from scipy.special import log_ndtr

# Above this only the first few digits of epsilon are accurate, and an upper bound replaces the exact value.
LARGEST_EXACT = 1e8


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """Return log delta(epsilon) = log( Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) ), without cancellation to
    zero."""
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    gap = second - first
    return first + math.log(-math.expm1(gap)) if gap < 0 else -math.inf


@functools.lru_cache(maxsize=1024)  # several accounts of a round ask for the same
def gaussian_epsilon(delta: float, mu: float) -> float:
    """Return the smallest epsilon >= 0 at which the mechanism is (epsilon, delta)-private: 0 for mu = 0, inf for
    mu = inf."""
    if mu == 0 or delta >= 1:
        return 0.0
    if math.isinf(mu):
        return math.inf
    if mu > LARGEST_EXACT:
        return mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))
    from scipy.optimize import brentq  # imported here, so that reading settings does not import it

    target = math.log(delta)
    if gaussian_log_delta(0.0, mu) <= target:
        return 0.0
    # At this epsilon Phi(mu/2 - eps/mu), an upper bound on delta(eps), is below delta.
    high = mu * mu / 2 + mu * math.sqrt(-2 * target) + 1e-9
    return float(brentq(lambda epsilon: gaussian_log_delta(epsilon, mu) - target, 0.0, high, xtol=1e-12, rtol=1e-14))


def sampled_gaussian_epsilon(delta: float, mu: float, sampling_rate: float) -> float:
    """Return epsilon of one round in which a device takes part with probability q: log(1 + q (e^eps0 - 1)), with eps0
    at delta/q.

    For Poisson sampling under add/remove mu = C/sigma; for a sample of fixed size under replace-one mu = 2 C/sigma.
    """
    return amplified_loss(gaussian_epsilon(delta / sampling_rate, mu), sampling_rate)


def amplified_loss(loss: float, sampling_rate: float) -> float:
    """Return log(1 + q (e^loss - 1)), a privacy loss amplified by subsampling; inf for inf."""
    # Written as x + log(q + (1 - q) e^-x), which does not overflow.
    return loss + math.log(sampling_rate + (1 - sampling_rate) * math.exp(-loss))
