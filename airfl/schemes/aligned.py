"""What PFELS and its two baselines share: clip, an aligned superposition, and the privacy bound of theorem 3."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.privacy.pfels import theorem_3_factor
from airfl.radio.parts import policy_parameters, waveform_of
from airfl.schemes.recipe import Claim, Problem
from airfl.uplinks import AnalogUplink
from airfl.uplinks.control import PowerControl

PAPER = (
    "Zhang, Guo, Fang, Gong: Communication and energy efficient wireless federated learning with intrinsic privacy "
    "(PFELS)"
)


def aligned_uplink(problem: Problem, privacy_bound: float = math.inf) -> AnalogUplink:
    """All devices at once, aligned to the largest beta within power and `privacy_bound`; other policies than the
    paper's (power.policy) keep to the same bounds."""
    settings = problem.settings
    power, run = settings.power, settings.run
    control = PowerControl(
        policy=power.policy,
        parameters=policy_parameters(settings),
        limit=settings.power_limit,
        noise_std=problem.noise_std,
        privacy_bound=privacy_bound,
        divide_by=power.divide_by,
        combining=settings.antennas.combining,
        strict=power.strict,
        peak_db=power.peak_db,
        peak=power.peak,
    )
    return AnalogUplink(
        grid=problem.grid,
        control=control,
        noise_std=problem.noise_std,
        noise=settings.channel.noise,
        interference_to_noise_db=settings.channel.interference_to_noise_db,
        waveform=waveform_of(settings),
        csi_error=settings.privacy.csi_error,
        tail=settings.csi_tail / run.rounds,
        least_gain=settings.channel.min_gain if settings.channel.units == "normalised" else 0.0,
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


def theorem_3_claim(problem: Problem) -> Claim:
    """epsilon = C_2 beta^t for each round (eq. 20); without noise the theorem gives nothing."""
    factor = privacy_factor(problem) if problem.settings.channel.noise else math.inf
    return Claim(epsilon=lambda report: factor * report.alignment_coefficient, scope="round")
