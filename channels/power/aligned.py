"""Aligned superposition: every payload arrives with one amplitude beta, as large as limits and privacy allow (PFELS).

The parts of it that the other policies share are here too: effective gains, the reach of a device, inversion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from channels.power.limits import Alignment
from channels.power.plan import Array, Policy, PowerPlan, PowerTask

Mask = NDArray[np.bool_]


class Pfels(Policy):
    """The largest beta that every device reaches within its limit and the privacy bound (PFELS theorem 5, eq. 36).

    Over a selective channel all coefficients share beta, and a device's limit is on beta^2 rms_i^2 sum_w w/|g_i|^2, the
    mean over where its entries fall. A device that reaches no beta at all (no energy, or a gain of 0 where its entries
    may fall) is silent and sets nothing. With no device at all beta is the privacy bound, inf where there is none.
    Where beta is announced, a device that cannot reach it is silent.
    """

    name = "pfels"
    source = "PFELS, theorem 5, eq. 36"
    aligned = one_by_one = announces = True

    def plan(self, task: PowerTask) -> PowerPlan:
        """Inversion to that beta."""
        reaches = self.reaches(task)
        return inversion_plan(task, settle(reaches, task.privacy_bound, task.announced), reaches)

    def reaches(self, task: PowerTask) -> Array:
        """Of inversion."""
        return inversion_reaches(task)


def inversion_reaches(task: PowerTask) -> Array:
    """The largest beta at which each device can invert its channel on all coefficients, [devices]."""
    return reach(effective_gains(task.gains, task.weights), task.energy_limits, task.rms_norms)


def effective_gains(gains: Array, weights: Array, used: Mask | None = None) -> Array:
    """1/sqrt(sum_w w/|g_i|^2) over the coefficients in use: the gain of the flat channel that takes as much energy.

    gains: [devices, blocks, subcarriers]; weights: [blocks, subcarriers]; used: axes of gains, all by default.
    Returns [devices]: inf for a device that uses nothing, 0 for one that would have to invert a gain of 0.
    """
    used = carried(gains, weights) if used is None else used & carried(gains, weights)
    least = gains.min(axis=(1, 2), where=used, initial=np.inf)
    # Relative to the least gain no square under- or overflows, and a flat channel keeps its gain to the last bit.
    ratios = np.divide(least[:, None, None], gains, out=np.zeros(gains.shape), where=used & (gains > 0))
    spread = np.sqrt((weights * ratios**2).sum(axis=(1, 2)))
    return np.asarray(np.divide(least, spread, out=least, where=spread > 0))


def carried(gains: Array, weights: Array) -> Mask:
    """Which coefficients entries may fall on, [devices, blocks, subcarriers]."""
    return np.broadcast_to(weights > 0, gains.shape)


def reach(gains: Array, energy_limits: Array, rms_norms: Array) -> Array:
    """The largest beta that a device can arrive with: gain sqrt(limit)/rms, shapes broadcast.

    inf for a device with nothing to say or nothing to use (gain inf), 0 where gain or limit is 0.
    """
    gains, limits, norms = np.broadcast_arrays(gains, energy_limits, rms_norms)
    free = (norms == 0) | np.isinf(gains)
    able = (gains > 0) & (limits > 0)
    bounded = np.divide(gains * np.sqrt(limits), norms, out=np.zeros(gains.shape), where=able & ~free)
    return np.where(able & free, np.inf, bounded)


def settle(reaches: Array, privacy_bound: float, target: float | None = None) -> Alignment:
    """beta for devices that reach so far, [devices]: the least positive reach, or a target, within the privacy bound.

    Where nobody bounds it (everybody is silent) and there is no privacy bound, beta is 1: what is received is noise, at
    any scale. Without devices it is the privacy bound whatever that is. A target is no power bound.
    """
    power_bound = float(np.min(reaches, where=reaches > 0, initial=np.inf)) if target is None else np.inf
    wanted = power_bound if target is None else target
    coefficient = min(wanted, privacy_bound)
    return Alignment(
        coefficient=1.0 if np.isinf(coefficient) and len(reaches) else coefficient,
        power_bound_binding=bool(power_bound <= privacy_bound and np.isfinite(power_bound)),
        privacy_bound_binding=bool(privacy_bound <= wanted and np.isfinite(privacy_bound)),
    )


def inversion_plan(task: PowerTask, alignment: Alignment, reaches: Array, used: Mask | None = None) -> PowerPlan:
    """Channel inversion to beta by every device that reaches it, on the coefficients in use; the others are silent."""
    senders = carried(task.gains, task.weights) & (reaches >= alignment.coefficient)[:, None, None]
    return PowerPlan(
        amplitudes=invert(task.gains, alignment.coefficient, senders if used is None else senders & used),
        coefficient=np.full((1, 1), alignment.coefficient),
        power_bound_binding=alignment.power_bound_binding,
        privacy_bound_binding=alignment.privacy_bound_binding,
    )


def invert(gains: Array, arriving: Array | float, senders: Mask) -> Array:
    """|b| = arriving/|g| where a device sends, 0 elsewhere, [devices, blocks, subcarriers]."""
    return np.divide(arriving, gains, out=np.zeros(gains.shape), where=senders & (gains > 0))
