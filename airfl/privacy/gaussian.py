"""Exact privacy of the Gaussian mechanism (Balle and Wang 2018), and of one round of it on a sample of the devices.

mu is sensitivity over noise standard deviation throughout.
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr

# Beyond, where no digit of epsilon but the first few means anything, its upper bound stands for it.
LARGEST_EXACT = 1e8


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """log delta(epsilon) = log( Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) ), without cancellation to zero."""
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    gap = second - first
    return first + math.log(-math.expm1(gap)) if gap < 0 else -math.inf


def gaussian_epsilon(delta: float, mu: float) -> float:
    """Smallest epsilon >= 0 at which the mechanism is (epsilon, delta)-private; mu = 0 gives 0, mu = inf gives inf."""
    if mu == 0 or delta >= 1:
        return 0.0
    if math.isinf(mu):
        return math.inf
    if mu > LARGEST_EXACT:
        return mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))
    from scipy.optimize import brentq  # here, for the settings name accountants and are read without it

    target = math.log(delta)
    if gaussian_log_delta(0.0, mu) <= target:
        return 0.0
    # Phi(mu/2 - eps/mu) alone is below delta here, and it bounds delta(eps) from above.
    high = mu * mu / 2 + mu * math.sqrt(-2 * target) + 1e-9
    return float(brentq(lambda epsilon: gaussian_log_delta(epsilon, mu) - target, 0.0, high, xtol=1e-12, rtol=1e-14))


def sampled_gaussian_epsilon(delta: float, mu: float, sampling_rate: float) -> float:
    """One round in which a device takes part with probability q: log(1 + q (e^eps0 - 1)), eps0 at delta/q.

    For Poisson sampling under add/remove mu = C/sigma; for a sample of fixed size under replace-one mu = 2 C/sigma.
    """
    return amplified_loss(gaussian_epsilon(delta / sampling_rate, mu), sampling_rate)


def amplified_loss(loss: float, sampling_rate: float) -> float:
    """log(1 + q (e^loss - 1)), what a sample makes of a privacy loss; inf of inf."""
    # As x + log(q + (1 - q) e^-x), which does not overflow.
    return loss + math.log(sampling_rate + (1 - sampling_rate) * math.exp(-loss))
