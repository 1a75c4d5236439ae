"""Whether a plan is what a policy promises: asked of every plan of a user's own policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from channels.power.plan import Array, Policy, PowerPlan, PowerTask

ROUNDING = 1e-9


def check_plan(policy: Policy, task: PowerTask, plan: PowerPlan) -> None:
    """ValueError, one line, for a plan of another shape, with numbers that are none, above the energy limit or the
    privacy bound, or otherwise than the class of the policy says."""
    if not isinstance(plan, PowerPlan):
        raise ValueError(f"{policy!r} gave {type(plan).__name__}, a PowerPlan is wanted")
    devices, cells = len(task.gains), task.gains.shape[1:]
    amplitudes, beta = np.asarray(plan.amplitudes), np.asarray(plan.coefficient)
    if amplitudes.shape != task.gains.shape:
        raise ValueError(f"{policy!r} gave amplitudes of shape {amplitudes.shape}, {task.gains.shape} is wanted")
    betas = cells if policy.per_coefficient else (1, 1)
    if beta.shape != betas:
        raise ValueError(f"{policy!r} gave a coefficient of shape {beta.shape}, {betas} is wanted")
    for values, what, fits in (
        (amplitudes, "an amplitude", np.isfinite(amplitudes) & (amplitudes >= 0)),
        (beta, "a coefficient", (beta > 0) & (np.isfinite(beta) | (devices == 0))),
    ):
        if not fits.all():
            raise ValueError(f"{policy!r} gave {what} of {values[~fits][0]}, which is no amplitude")
    energies = plan.mean_square_amplitudes(task.weights) * task.rms_norms**2
    loud = energies > task.energy_limits * (1 + ROUNDING)
    if loud.any() and not policy.over_fading:
        raise ValueError(
            f"{policy!r} exceeds the energy limit: one device may spend {task.energy_limits[loud][0]:.6g}, and would "
            f"spend {energies[loud][0]:.6g}"
        )
    arriving, sends = amplitudes * task.gains, (amplitudes > 0) & (task.weights > 0)
    if np.max(arriving, where=sends, initial=0.0) > task.privacy_bound * (1 + ROUNDING):
        raise ValueError(
            f"{policy!r} exceeds the privacy bound: a message arrives with {arriving[sends].max():.6g}, and "
            f"{task.privacy_bound:.6g} is the most"
        )
    if policy.aligned:
        _check_aligned(policy, arriving, np.broadcast_to(beta, task.gains.shape), sends)
        _check_heard(policy, task, sends)
    if policy.one_by_one:
        _check_one_by_one(policy, task, float(beta.flat[0]))


def _check_aligned(policy: Policy, arriving: Array, beta: Array, sends: NDArray[np.bool_]) -> None:
    off = sends & (np.abs(arriving - beta) > ROUNDING * beta)
    if off.any():
        raise ValueError(
            f"{policy!r} is said to be aligned, and a message arrives with {arriving[off][0]:.6g}, not with the "
            f"coefficient {beta[off][0]:.6g}"
        )


def _check_heard(policy: Policy, task: PowerTask, sends: NDArray[np.bool_]) -> None:
    """Nobody is silent who has energy, and a channel wherever entries may fall: but for a threshold, or for a beta that
    is not the devices' own."""
    told = policy.target is not None or (policy.announces and task.announced is not None)
    if policy.least_power or told:
        return
    carried = np.broadcast_to(task.weights > 0, task.gains.shape)
    able = (task.energy_limits > 0) & ((task.gains > 0) | ~carried).all(axis=(1, 2))
    silent = able[:, None, None] & carried & ~sends
    if silent.any():
        device = np.argwhere(silent)[0][0]
        raise ValueError(
            f"{policy!r} is said to be aligned, and device {device} of {len(able)} is silent, which could be heard; "
            "let every device send, say aligned = False, or have a `threshold` or a `coefficient`"
        )


def _check_one_by_one(policy: Policy, task: PowerTask, beta: float) -> None:
    reaches = np.asarray(policy.reaches(task))
    if reaches.shape != task.energy_limits.shape:
        raise ValueError(f"{policy!r} gave reaches of shape {reaches.shape}, {task.energy_limits.shape} is wanted")
    told = task.announced if policy.announces and task.announced is not None else policy.target
    least = float(np.min(reaches, where=reaches > 0, initial=np.inf)) if told is None else told
    expected = min(least, task.privacy_bound)
    if np.isfinite(expected) and abs(beta - expected) > ROUNDING * expected:
        raise ValueError(
            f"{policy!r} is said to be one_by_one, and its coefficient is {beta:.6g} where what devices reach gives "
            f"{expected:.6g}"
        )
