"""Aligned superposition: all payloads arrive with one amplitude beta, as large as limits and privacy allow (PFELS).

The functions shared with other policies are also here: effective gains, the reach of a device, and channel inversion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from channels.power.limits import Alignment
from channels.power.plan import Array, Policy, PowerPlan, PowerTask

Mask = NDArray[np.bool_]


class Pfels(Policy):
    """The largest beta within every device's energy limit and the privacy bound (PFELS theorem 5, eq. 36).

    Over a selective channel, all coefficients share beta, and a device's limit applies to beta^2 rms_i^2
    sum_w w/|g_i|^2, the mean over the positions of its entries. A device that cannot transmit at all (no energy, or a
    gain of 0 where its entries may fall) is silent and does not affect beta. Without any device, beta is the privacy
    bound, or inf if there is none. If beta is announced, a device that cannot reach it is silent.
    """

    name = "pfels"
    source = "PFELS, theorem 5, eq. 36"
    aligned = one_by_one = announces = True

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return channel inversion to that beta."""
        reaches = self.reaches(task)
        return inversion_plan(task, settle(reaches, task.privacy_bound, task.announced), reaches)

    def reaches(self, task: PowerTask) -> Array:
        """Return the largest beta of each device by channel inversion, [devices]."""
        return inversion_reaches(task)


def inversion_reaches(task: PowerTask) -> Array:
    """Return the largest beta at which each device can invert its channel on all coefficients, [devices]."""
    return reach(effective_gains(task.gains, task.weights), task.energy_limits, task.rms_norms)


def effective_gains(gains: Array, weights: Array, used: Mask | None = None) -> Array:
    """Return 1/sqrt(sum_w w/|g_i|^2) over the used coefficients: the flat gain whose inversion takes the same energy.

    gains: [devices, blocks, subcarriers]; weights: [blocks, subcarriers]; used: in the shape of gains, default all.
    Returns [devices]: inf for a device that uses no coefficient, 0 for one that would have to invert a gain of 0.
    """
    used = carried(gains, weights) if used is None else used & carried(gains, weights)
    least = gains.min(axis=(1, 2), where=used, initial=np.inf)
    # Relative to the smallest gain, squares do not under- or overflow, and a flat channel keeps its gain exactly.
    ratios = np.divide(least[:, None, None], gains, out=np.zeros(gains.shape), where=used & (gains > 0))
    spread = np.sqrt((weights * ratios**2).sum(axis=(1, 2)))
    return np.asarray(np.divide(least, spread, out=least, where=spread > 0))


def carried(gains: Array, weights: Array) -> Mask:
    """Return the mask of the coefficients that can carry entries, [devices, blocks, subcarriers]."""
    return np.full(gains.shape, weights > 0)


def reach(gains: Array, energy_limits: Array, rms_norms: Array) -> Array:
    """Return the largest beta with which a device can arrive: gain sqrt(limit)/rms, shapes broadcast.

    It is inf for a device without a message or a used coefficient (gain inf), and 0 if the gain or limit is 0.
    """
    gains, limits, norms = np.broadcast_arrays(gains, energy_limits, rms_norms)
    free = (norms == 0) | np.isinf(gains)
    able = (gains > 0) & (limits > 0)
    bounded = np.divide(gains * np.sqrt(limits), norms, out=np.zeros(gains.shape), where=able & ~free)
    return np.where(able & free, np.inf, bounded)


def settle(reaches: Array, privacy_bound: float, target: float | None = None) -> Alignment:
    """Return beta for devices with the given reaches, [devices]: the smallest positive one, or a target.

    beta never exceeds the privacy bound. If no device bounds it (all are silent) and there is no privacy bound, beta is
    1, because only noise is received, at any scale. Without devices, it is the privacy bound. A target does not count
    as a power bound.
    """
    power_bound = float(np.min(reaches, where=reaches > 0, initial=np.inf)) if target is None else np.inf
    aim = power_bound if target is None else target
    coefficient = min(aim, privacy_bound)
    return Alignment(
        coefficient=1.0 if np.isinf(coefficient) and len(reaches) else coefficient,
        power_bound_binding=bool(power_bound <= privacy_bound and np.isfinite(power_bound)),
        privacy_bound_binding=bool(privacy_bound <= aim and np.isfinite(privacy_bound)),
    )


def unbounded(task: PowerTask) -> Alignment:
    """Return beta where no device bounds it: the privacy bound, or 1 if there are devices but no bound."""
    return settle(np.zeros(len(task.energy_limits)), task.privacy_bound)


def inversion_plan(task: PowerTask, alignment: Alignment, reaches: Array, used: Mask | None = None) -> PowerPlan:
    """Return channel inversion to beta on the used coefficients, for all devices that reach it; others are silent."""
    senders = carried(task.gains, task.weights) & (reaches >= alignment.coefficient)[:, None, None]
    return PowerPlan(
        amplitudes=invert(task.gains, alignment.coefficient, senders if used is None else senders & used),
        coefficient=np.full((1, 1), alignment.coefficient),
        power_bound_binding=alignment.power_bound_binding,
        privacy_bound_binding=alignment.privacy_bound_binding,
    )


def invert(gains: Array, arriving: Array | float, senders: Mask) -> Array:
    """Return |b| = arriving/|g| where a device sends, 0 elsewhere, [devices, blocks, subcarriers]."""
    return np.divide(arriving, gains, out=np.zeros(gains.shape), where=senders & (gains > 0))
