"""Channel inversion with a separate beta for every coefficient, so that a fade affects only its own subcarrier."""

from __future__ import annotations

import numpy as np

from channels.power.aligned import Mask, carried, invert, reach
from channels.power.parameters import least_power
from channels.power.plan import Array, Policy, PowerPlan, PowerTask
from channels.power.truncated import above_threshold


class PerSubcarrier(Policy):
    """beta_j = min_i |g_ij| sqrt(limit_i)/rms_i on coefficient j, within the privacy bound (PFELS eq. 36, for each).

    |b_ij|^2 rms_i^2 <= limit_i holds on every coefficient, so the limit is met for any positions of the entries. A
    device is silent where its gain is 0. On a coefficient without a sender, only noise is received, and beta_j is the
    largest of the others. Without any sender, it is the privacy bound, or 1 if there is none. A bound is binding if it
    determines some beta_j in use.
    """

    name = "per-subcarrier"
    source = "PFELS, eq. 36, on each coefficient"
    per_coefficient = aligned = True

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return channel inversion to these beta_j."""
        return _plan(task, carried(task.gains, task.weights))


class PerSubcarrierTruncated(Policy):
    """`PerSubcarrier` with truncation: a device does not send where |g_ij|^2 is below `threshold` times its mean.

    Source: Zhu, Wang, Huang 2020, who truncate each subcarrier separately.
    """

    name = "per-subcarrier-truncated"
    source = "Zhu, Wang, Huang 2020, truncated channel inversion"
    truncates = per_coefficient = True

    threshold: float = least_power()

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return channel inversion to these beta_j where the channel is above the threshold."""
        return _plan(task, carried(task.gains, task.weights) & above_threshold(task, self.threshold))


def _plan(task: PowerTask, used: Mask) -> PowerPlan:
    reaches = reach(task.gains, task.energy_limits[:, None, None], task.rms_norms[:, None, None])
    used = used & (reaches > 0)
    power_bounds = reaches.min(axis=0, where=used, initial=np.inf)
    in_use = np.asarray(used.any(axis=0))
    coefficient = _fill(np.minimum(power_bounds, task.privacy_bound), in_use, task.privacy_bound, len(reaches))
    by_power = (power_bounds <= task.privacy_bound) & np.isfinite(power_bounds)
    by_privacy = (task.privacy_bound <= power_bounds) & np.isfinite(task.privacy_bound)
    return PowerPlan(
        amplitudes=invert(task.gains, coefficient, used),
        coefficient=coefficient,
        power_bound_binding=bool(by_power.any()),
        privacy_bound_binding=bool(by_privacy[in_use].any() if in_use.any() else by_privacy.any()),
    )


def _fill(coefficient: Array, in_use: Mask, privacy_bound: float, devices: int) -> Array:
    """Replace beta by a finite value on coefficients without a sender or without a bound."""
    bounded = in_use & np.isfinite(coefficient)
    if bounded.any():
        return np.where(bounded, coefficient, coefficient[bounded].max())
    unbounded = 1.0 if np.isinf(privacy_bound) and devices else privacy_bound
    return np.full(coefficient.shape, unbounded)
