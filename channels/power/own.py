"""Checks of power plans, applied to every plan of a user-defined policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from channels.power.plan import Array, Policy, PowerPlan, PowerTask

ROUNDING = 1e-9


def check_plan(policy: Policy, task: PowerTask, plan: PowerPlan) -> None:
    """Check that a plan is valid and consistent with the attributes of its policy.

    Raises ValueError for a wrong type or shape, invalid numbers, a violation of the energy limits or the privacy bound,
    and a plan that is not as the class attributes of the policy declare.
    """
    if not isinstance(plan, PowerPlan):
        raise ValueError(f"{policy!r} must return a PowerPlan, got {type(plan).__name__}")
    devices, cells = len(task.gains), task.gains.shape[1:]
    amplitudes, beta = np.asarray(plan.amplitudes), np.asarray(plan.coefficient)
    if amplitudes.shape != task.gains.shape:
        raise ValueError(f"{policy!r} must return amplitudes of shape {task.gains.shape}, got {amplitudes.shape}")
    betas = cells if policy.per_coefficient else (1, 1)
    if beta.shape != betas:
        raise ValueError(f"{policy!r} must return a coefficient of shape {betas}, got {beta.shape}")
    for values, what, allowed, fits in (
        (amplitudes, "amplitudes", "at least 0", np.isfinite(amplitudes) & (amplitudes >= 0)),
        (beta, "a coefficient", "positive", (beta > 0) & (np.isfinite(beta) | (devices == 0))),
    ):
        if not fits.all():
            raise ValueError(f"{policy!r} must return {what} finite and {allowed}, got {values[~fits][0]}")
    energies = plan.mean_square_amplitudes(task.weights) * task.rms_norms**2
    excessive = energies > task.energy_limits * (1 + ROUNDING)
    if excessive.any() and not policy.over_fading:
        raise ValueError(
            f"{policy!r} exceeds the energy limit of a device: {energies[excessive][0]:.6g}, at most "
            f"{task.energy_limits[excessive][0]:.6g} is allowed"
        )
    arriving, sends = amplitudes * task.gains, (amplitudes > 0) & (task.weights > 0)
    if np.max(arriving, where=sends, initial=0.0) > task.privacy_bound * (1 + ROUNDING):
        raise ValueError(
            f"{policy!r} exceeds the privacy bound: a message arrives with {arriving[sends].max():.6g}, at most "
            f"{task.privacy_bound:.6g} is allowed"
        )
    if policy.within_beta:
        _check_within(policy, arriving, np.broadcast_to(beta, task.gains.shape), sends)
    if policy.aligned:
        _check_aligned(policy, arriving, np.broadcast_to(beta, task.gains.shape), sends)
        _check_all_send(policy, task, sends)
    if policy.one_by_one:
        _check_one_by_one(policy, task, float(beta.flat[0]))


def _check_within(policy: Policy, arriving: Array, beta: Array, sends: NDArray[np.bool_]) -> None:
    above = sends & (arriving > beta * (1 + ROUNDING))
    if above.any() and policy.coherent:
        raise ValueError(
            f"{policy!r} declares `within_beta`, but a message arrives with {arriving[above][0]:.6g}, more than the "
            f"coefficient {beta[above][0]:.6g}; set within_beta = False, so that privacy figures allow for it"
        )


def _check_aligned(policy: Policy, arriving: Array, beta: Array, sends: NDArray[np.bool_]) -> None:
    off = sends & (np.abs(arriving - beta) > ROUNDING * beta)
    if off.any():
        raise ValueError(
            f"{policy!r} declares `aligned`, but a message arrives with {arriving[off][0]:.6g} instead of the "
            f"coefficient {beta[off][0]:.6g}"
        )


def _check_all_send(policy: Policy, task: PowerTask, sends: NDArray[np.bool_]) -> None:
    """Check that every device sends that has energy and a positive gain wherever entries may fall.

    Devices may be silent if there is a threshold, or a beta that does not follow from the devices.
    """
    given_beta = policy.target is not None or (policy.announces and task.announced is not None)
    if policy.least_power or given_beta:
        return
    carried = np.broadcast_to(task.weights > 0, task.gains.shape)
    able = (task.energy_limits > 0) & ((task.gains > 0) | ~carried).all(axis=(1, 2))
    silent = able[:, None, None] & carried & ~sends
    if silent.any():
        device = np.argwhere(silent)[0][0]
        raise ValueError(
            f"{policy!r} declares `aligned`, but device {device} of {len(able)} is silent although it could send; let "
            "every device send, set aligned = False, or add a `threshold` or `coefficient`"
        )


def _check_one_by_one(policy: Policy, task: PowerTask, beta: float) -> None:
    reaches = np.asarray(policy.reaches(task))
    if reaches.shape != task.energy_limits.shape:
        raise ValueError(f"{policy!r} must return reaches of shape {task.energy_limits.shape}, got {reaches.shape}")
    given_beta = task.announced if policy.announces and task.announced is not None else policy.target
    least = float(np.min(reaches, where=reaches > 0, initial=np.inf)) if given_beta is None else given_beta
    expected = min(least, task.privacy_bound)
    if np.isfinite(expected) and abs(beta - expected) > ROUNDING * expected:
        raise ValueError(
            f"{policy!r} declares `one_by_one`, so its coefficient must be {expected:.6g} by the reaches of the "
            f"devices, got {beta:.6g}"
        )
