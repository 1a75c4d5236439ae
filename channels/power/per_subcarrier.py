"""Inversion with an amplitude of its own on every coefficient: a fade on one subcarrier costs that subcarrier only."""

from __future__ import annotations

import numpy as np

from channels.power.aligned import Mask, carried, invert, reach
from channels.power.parameters import least_power
from channels.power.plan import Array, Policy, PowerPlan, PowerTask
from channels.power.truncated import above_threshold


class PerSubcarrier(Policy):
    """beta_j = min_i |g_ij| sqrt(limit_i)/rms_i on coefficient j, within the privacy bound (PFELS eq. 36, for each).

    |b_ij|^2 rms_i^2 <= limit_i holds on every coefficient, so the limit is kept wherever the entries fall. A device is
    silent where its gain is 0. On a coefficient that nobody sends on, beta_j is the largest of the others (received is
    noise, at any scale), or, where nobody sends at all, the privacy bound, or 1 where there is none. A bound is binding
    where it sets some beta_j in use.
    """

    name = "per-subcarrier"
    source = "PFELS, eq. 36, on each coefficient"
    per_coefficient = aligned = True

    def plan(self, task: PowerTask) -> PowerPlan:
        """Inversion to those beta."""
        return _plan(task, carried(task.gains, task.weights))


class PerSubcarrierTruncated(Policy):
    """As `PerSubcarrier`; a device does not send where |g_ij|^2 is under `threshold` of its mean (Zhu, Wang, Huang
    2020, who truncate each subcarrier by itself)."""

    name = "per-subcarrier-truncated"
    source = "Zhu, Wang, Huang 2020, truncated channel inversion"
    truncates = per_coefficient = True

    threshold: float = least_power()

    def plan(self, task: PowerTask) -> PowerPlan:
        """Inversion to those beta where the channel is above the threshold."""
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
    """A finite beta for coefficients that nobody sends on, and for those that nothing bounds."""
    bounded = in_use & np.isfinite(coefficient)
    if bounded.any():
        return np.where(bounded, coefficient, coefficient[bounded].max())
    unbounded = 1.0 if np.isinf(privacy_bound) and devices else privacy_bound
    return np.full(coefficient.shape, unbounded)
