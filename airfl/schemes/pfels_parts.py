"""What PFELS and its two baselines share: the paper, and the privacy bound of theorem 3."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.privacy.pfels import theorem_3_factor
from airfl.schemes.calibrated import is_calibrated, largest_alignment
from airfl.schemes.recipe import Claim, Problem
from airfl.stages import Stage

PAPER = (
    "Zhang, Guo, Fang, Gong: Communication and energy efficient wireless federated learning with intrinsic privacy "
    "(PFELS)"
)


def privacy_factor(problem: Problem) -> float:
    """C_2 of theorem 3 (eq. 21), C being the largest weighted update."""
    settings = problem.settings
    run, delta = settings.run, settings.delta
    if 1.25 * run.selected <= run.devices * delta:
        raise UserError(
            f"privacy.delta: {delta:g} is too large for theorem 3 of PFELS, which needs delta < 1.25 r/N = "
            f"{1.25 * run.selected / run.devices:g}"
        )
    return theorem_3_factor(
        clip_norm=settings.local.update_bound * problem.largest_weight,
        selected=run.selected,
        devices=run.devices,
        delta=delta,
        noise_std=problem.noise_std,
    )


def privacy_bound(problem: Problem, stages: tuple[Stage, ...]) -> float:
    """The largest beta that privacy allows: epsilon/C_2 in every round, or what ends the whole run at epsilon."""
    factor = privacy_factor(problem)
    if is_calibrated(problem.settings.privacy):
        return largest_alignment(problem, stages)
    return problem.settings.privacy.epsilon / factor


def theorem_3_claim(problem: Problem) -> Claim:
    """epsilon = C_2 beta^t for each round (eq. 20); without noise the theorem gives nothing."""
    factor = privacy_factor(problem) if problem.settings.channel.noise else math.inf
    return Claim(epsilon=lambda report, rounds: factor * report.alignment_coefficient, scope="round")
