"""The privacy claims of Fed-SMP: its theorem 1, and the accountant that produced the figures of its tables.

Client level, add/remove. The noise multiplier is the noise on an entry of the sum over the clip norm.
"""

from __future__ import annotations

import functools
from math import inf, log, sqrt

# The default orders of Opacus (version 1.0), and the integer orders from 2 to 64.
OPACUS_ORDERS = tuple(sorted({1 + x / 10 for x in range(1, 100)} | {float(order) for order in range(2, 65)}))


def theorem_1_epsilon(noise_multiplier: float, sampling_rate: float, rounds: int, delta: float) -> float:
    """Return the epsilon that theorem 1 claims after T rounds: sigma^2 = 7 q^2 T (epsilon + 2 log(1/delta))/epsilon^2,
    solved for epsilon.

    The theorem is stated for epsilon < 2 log(1/delta) only. The result is inf where the solution is larger, and
    without noise.
    """
    if noise_multiplier <= 0:
        return inf
    a, limit = 7 * sampling_rate**2 * rounds / noise_multiplier**2, 2 * log(1 / delta)
    if a >= limit:  # epsilon is at least a; checked first, as the square of a may overflow
        return inf
    epsilon = (a + sqrt(a**2 + 4 * a * limit)) / 2
    return epsilon if epsilon < limit else inf


def theorem_1_noise_multiplier(epsilon: float, sampling_rate: float, rounds: int, delta: float) -> float:
    """Return sigma of theorem 1 for (epsilon, delta) after T rounds.

    Raises ValueError unless 0 < epsilon < 2 log(1/delta).
    """
    limit = 2 * log(1 / delta)
    if not 0 < epsilon < limit:
        raise ValueError(
            f"epsilon must be above 0 and below 2 log(1/delta) = {limit:.3g} for theorem 1 of Fed-SMP, got "
            f"{epsilon:g}; give such an epsilon, or the noise itself"
        )
    return sqrt(7 * sampling_rate**2 * rounds * (epsilon + limit)) / epsilon


def older_conversion_epsilon(noise_multiplier: float, sampling_rate: float, rounds: int, delta: float) -> float:
    """Return the epsilon of the paper's tables: min over the orders of T rdp(alpha) + log(1/delta)/(alpha - 1), for
    Poisson sampling.

    Opacus used this conversion (Mironov 2017, proposition 3) before it adopted a tighter one. It is valid but loose.
    """
    if noise_multiplier <= 0:
        return inf
    one_round = _rdp_of_a_round(noise_multiplier, sampling_rate)
    bounds = [
        rounds * rdp + log(1 / delta) / (order - 1)
        for order, rdp in zip(OPACUS_ORDERS, one_round, strict=True)
        if rdp < inf
    ]
    return min(bounds, default=inf)


@functools.lru_cache(maxsize=64)
def _rdp_of_a_round(noise_multiplier: float, sampling_rate: float) -> tuple[float, ...]:
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(OPACUS_ORDERS)
    gaussian = dp_accounting.GaussianDpEvent(noise_multiplier)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(sampling_rate, gaussian))
    return tuple(float(value) for value in accountant.rdp)
