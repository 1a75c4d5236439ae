"""MSE-optimal power control of messages that have a part in common: strong devices speak up for weak ones."""

from __future__ import annotations

import numpy as np

from channels.part import parameter
from channels.power.aligned import carried, effective_gains, invert, reach, unbounded
from channels.power.plan import Array, Policy, PowerPlan, PowerTask

# Halvings of the interval in which 1/beta is found; 2^-120 of its upper end.
HALVINGS = 120


class Correlated(Policy):
    """Minimise the error of the noisy sum of messages m_i = rms_i (sqrt(c) u + sqrt(1 - c) v_i), c = `common_share`.

    u is common to all devices, v_i is independent of it and of those of the others, and both have unit power. With
    x_i = |g_i| b_i/beta and d_i = x_i - 1, the error is

        c (sum_i rms_i d_i)^2 + (1 - c) sum_i rms_i^2 d_i^2 + noise/beta^2, 0 <= x_i <= a_i/beta,

    with the reach a_i of device i, lowered to the privacy bound. It is a convex quadratic function of (x, 1/beta) under
    linear constraints, so that there is one minimum, found to rounding: for a given beta, d_i = min(t/rms_i, a_i/beta -
    1) with the level t >= 0 at which t (1 - c) = -c sum_i rms_i d_i, and the derivative over 1/beta is increasing.

    For c = 0 this is the policy of Cao et al. For c > 0, devices that could do more than align send with up to
    1 + t/rms_i times beta, as the bias of weak devices matters only in sum. Over a selective channel, a device arrives
    with the same amplitude on every coefficient. If no device sends, beta is the privacy bound, or 1 if there is none.
    """

    name = "correlated"
    source = (
        "the problem of Zhang, Tao, Gradient statistics aware power control for over-the-air federated learning, IEEE "
        "Trans. Wireless Commun. 2021, for one common direction; without correlation Cao, Zhu, Xu, Huang 2020"
    )
    within_beta = False

    common_share: float = parameter(
        default=0.5,
        ge=0.0,
        lt=1.0,
        key="common_share",
        description="share of the power of a message in a part that is common to all devices (correlated)",
    )

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return the optimal beta and amplitudes."""
        by_power = reach(effective_gains(task.gains, task.weights), task.energy_limits, task.rms_norms)
        reaches = np.minimum(by_power, task.privacy_bound)
        counts = np.isfinite(by_power)  # a device without a message fits any beta
        arriving, free = np.zeros(len(reaches)), unbounded(task)
        bounded = bool((reaches[counts] > 0).any())
        coefficient = free.coefficient
        if bounded:
            relative, coefficient = best_arrival(
                reaches[counts], task.rms_norms[counts], self.common_share, task.noise_energy
            )
            arriving[counts] = np.minimum(relative * coefficient, reaches[counts])
        arriving[~counts] = min(coefficient, task.privacy_bound)
        full = counts & bounded & (arriving > 0) & (arriving >= reaches * (1 - ROUNDING))
        sent = arriving[:, None, None]
        return PowerPlan(
            amplitudes=invert(task.gains, sent, carried(task.gains, task.weights) & (sent > 0)),
            coefficient=np.full((1, 1), coefficient),
            power_bound_binding=bool((full & (by_power <= task.privacy_bound)).any()),
            privacy_bound_binding=bool((full & (by_power >= task.privacy_bound)).any())
            or (not bounded and free.privacy_bound_binding),
        )


# Relative difference up to which a device is at its limit.
ROUNDING = 1e-12


def best_arrival(reaches: Array, rms_norms: Array, common_share: float, noise_energy: float) -> tuple[Array, float]:
    """Return x_i = |g_i| b_i/beta, [devices], and beta of the least error.

    Args:
        reaches: a_i, largest amplitude with which each device can arrive, [devices], finite, one of them positive.
        rms_norms: sqrt(E||m_i||^2), [devices], positive.
        common_share: c, from 0 to below 1.
        noise_energy: Energy of the noise on all observed entries.
    """
    odds = common_share / (1 - common_share)

    def slope(inverse: float) -> float:
        """Half of the derivative of the error over 1/beta."""
        missing = rms_norms * (reaches * inverse - 1)
        short = np.minimum(missing - _level(missing, odds), 0.0)
        return noise_energy * inverse + (1 - common_share) * float((reaches * rms_norms * short).sum())

    able = reaches > 0
    low, high = 0.0, float(np.max((1 + odds * rms_norms.sum() / rms_norms[able]) / reaches[able]))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    missing = rms_norms * (reaches * high - 1)
    return 1 + np.minimum(_level(missing, odds), missing) / rms_norms, 1 / high


def _level(missing: Array, odds: float) -> float:
    """Return t >= 0 with t + odds sum_i min(t, e_i) = 0, for the e_i of `missing`."""
    levels = np.sort(missing)
    below = np.concatenate([[0.0], np.cumsum(levels)])
    above = len(levels) - np.arange(len(levels) + 1)
    candidates = -odds * below / (1 + odds * above)  # t if the k smallest e_i are below it
    edges = np.concatenate([[-np.inf], levels]), np.concatenate([levels, [np.inf]])
    # The left side increases in t, so that exactly one candidate lies between its own edges, except for rounding.
    off = np.maximum(edges[0] - candidates, candidates - edges[1])
    return max(float(candidates[np.argmin(off)]), 0.0)
