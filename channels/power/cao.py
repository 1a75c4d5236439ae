"""Optimal static power control of Cao et al.: strong devices invert their channel, weak ones send at full power."""

from __future__ import annotations

import numpy as np

from channels.power.aligned import carried, effective_gains, invert, reach, settle
from channels.power.plan import Array, Policy, PowerPlan, PowerTask


class Cao(Policy):
    """Minimise the error of the noisy sum, sum_i rms_i^2 (|g_i| b_i/beta - 1)^2 + noise/beta^2, over beta and b_i.

    Source: X. Cao, G. Zhu, J. Xu, K. Huang, "Optimized Power Control for Over-the-Air Computation in Fading Channels",
    IEEE Transactions on Wireless Communications 19(11), 2020, static channels; beta^2 is their eta. They assume equal
    variances of all messages; here, device i is weighted by rms_i^2.

    A device that reaches beta inverts its channel. The others send at full power and arrive with a smaller amplitude.
    Only devices that cannot transmit at all (no energy, or a gain of 0 where their entries may fall) are silent. Over a
    selective channel, a device at full power scales its inversion down, so that it arrives with the same amplitude on
    every coefficient; the error is minimal within that form. A privacy bound caps beta, which is then optimal under the
    bound because the error is convex in 1/beta.
    """

    name = "cao"
    source = "Cao, Zhu, Xu, Huang 2020, static channels"

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return the optimal beta and amplitudes."""
        reaches = reach(effective_gains(task.gains, task.weights), task.energy_limits, task.rms_norms)
        optimum = best_coefficient(reaches, task.rms_norms, task.noise_energy)
        alignment = settle(np.full(len(reaches), optimum), task.privacy_bound)
        arriving = np.minimum(reaches, alignment.coefficient)[:, None, None]
        return PowerPlan(
            amplitudes=invert(task.gains, arriving, carried(task.gains, task.weights) & (arriving > 0)),
            coefficient=np.full((1, 1), alignment.coefficient),
            power_bound_binding=alignment.power_bound_binding,
            privacy_bound_binding=alignment.privacy_bound_binding,
        )


def best_coefficient(reaches: Array, rms_norms: Array, noise_energy: float) -> float:
    """Return min_k (noise + sum_{i<=k} rms_i^2 a_i^2)/sum_{i<=k} rms_i^2 a_i over devices by ascending reach a_i.

    Each quotient is optimal if the k weakest devices send at full power and the others invert their channel. The
    smallest quotient is consistent with that assumption. The result is inf if no device bounds beta.
    """
    bounding = (reaches > 0) & np.isfinite(reaches)
    order = np.argsort(reaches[bounding])
    weakest = reaches[bounding][order]
    weights = rms_norms[bounding][order] ** 2 * weakest
    candidates = (noise_energy + np.cumsum(weights * weakest)) / np.cumsum(weights)
    return float(np.min(candidates, initial=np.inf))
