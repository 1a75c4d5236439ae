"""The privacy claim of Fed-SPA (theorem 1), as stated in the paper.

Record level. z is the noise on an entry of the mean gradient over the largest l2 norm of one record's contribution to
it. With the per-coordinate clip c = G/sqrt(d), k = p d kept coordinates and batches of size B, z = sigma B/(c sqrt(k)),
that is z^2 = sigma^2 B^2/(p G^2).
"""

from __future__ import annotations

from math import inf, log, sqrt


def theorem_1_epsilon(z: float, sampling_rate: float, participations: float, steps: int, delta: float) -> float:
    """Return the epsilon that theorem 1 claims: min over alpha > 1 of a alpha + log(1/delta)/(alpha - 1) =
    a + 2 sqrt(a log(1/delta)), with a = 7 q^2 I tau/z^2; inf without noise.

    The minimising alpha rarely meets the theorem's own condition (tests/golden/test_paper_privacy.py).

    Args:
        z: Noise over the largest contribution of a record.
        sampling_rate: q = B/m of a mini-batch.
        participations: I_i.
        steps: tau.
        delta: Of the privacy statement.
    """
    if z <= 0:
        return inf
    a = _a(z, sampling_rate, participations, steps)
    return a + 2 * sqrt(a * log(1 / delta))


def theorem_1_noise(epsilon: float, sampling_rate: float, participations: float, steps: int, delta: float) -> float:
    """Return z at which theorem 1 claims (epsilon, delta). Raises ValueError unless epsilon is positive."""
    if not epsilon > 0:
        raise ValueError(f"epsilon must be positive, got {epsilon:g}")
    root = sqrt(log(1 / delta) + epsilon) - sqrt(log(1 / delta))  # of a
    return sqrt(7 * sampling_rate**2 * participations * steps) / root


def _a(z: float, sampling_rate: float, participations: float, steps: int) -> float:
    return 7 * sampling_rate**2 * participations * steps / z**2
