"""Shared by PFELS and its two baselines: the reference and the privacy bound of theorem 3."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.privacy.pfels import theorem_3_factor
from airfl.schemes.calibrated import is_calibrated, largest_alignment
from airfl.schemes.recipe import Claim, Problem
from airfl.uplinks.stages import Stage

PAPER = (
    "Zhang, Guo, Fang, Gong: Communication and energy efficient wireless federated learning with intrinsic privacy "
    "(PFELS)"
)


def privacy_factor(problem: Problem) -> float:
    """Return C_2 of theorem 3 (eq. 21), with the largest weighted update as C."""
    settings = problem.settings
    run, delta = settings.run, settings.delta
    if 1.25 * run.selected <= run.devices * delta:
        raise UserError(
            f"privacy.delta: theorem 3 of PFELS needs delta < 1.25 r/N = {1.25 * run.selected / run.devices:g}, got "
            f"{delta:g}"
        )
    return theorem_3_factor(
        clip_norm=settings.local.update_bound * problem.largest_weight,
        selected=run.selected,
        devices=run.devices,
        delta=delta,
        noise_std=problem.noise_std,
    )


def privacy_bound(problem: Problem, stages: tuple[Stage, ...]) -> float:
    """Return the largest beta that privacy allows: epsilon/C_2 in every round, or the value with which the accountant
    ends the whole run at epsilon."""
    factor = privacy_factor(problem)
    if is_calibrated(problem.settings.privacy):
        return largest_alignment(problem, stages)
    return problem.settings.privacy.epsilon / factor


def theorem_3_claim(problem: Problem) -> Claim:
    """Return the claim epsilon = C_2 beta^t of each round (eq. 20), inf without receiver noise, and for policies under
    which messages may arrive with more than beta, as those of devices that do not know their channels."""
    settings = problem.settings
    within = settings.channel.noise and settings.power.power_policy.within_beta
    factor = privacy_factor(problem) if within else math.inf
    return Claim(epsilon=lambda report, rounds: factor * report.alignment_coefficient, scope="round")
