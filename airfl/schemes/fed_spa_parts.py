"""Shared by Fed-SPA and DP-Fed: the reference, perturbed local steps and the claim of theorem 1."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.learning.work import PerturbedSgd
from airfl.privacy.events import Composed
from airfl.privacy.fed_spa import theorem_1_epsilon, theorem_1_noise
from airfl.privacy.record import Batches, mini_batches
from airfl.schemes.calibrated import is_calibrated, run_noise_multiplier
from airfl.schemes.recipe import Claim, Problem
from airfl.schemes.release import RecordRelease

PAPER = (
    "Hu, Gong, Guo: Federated learning with sparsification-amplified privacy and adaptive optimization (Fed-SPA, 2021)"
)


def local_steps(problem: Problem) -> int:
    """Return tau, the local steps of a device with m samples."""
    local = problem.settings.local
    return local.steps or local.epochs * -(-problem.samples // local.batch_size)


def participations(problem: Problem, rounds: int) -> float:
    """Return the mean of I_i, a device's participations: rounds * r/N."""
    run = problem.settings.run
    return rounds * run.selected / run.devices


def noise_multiplier(problem: Problem, configured: float | None) -> float:
    """Return the noise multiplier sigma B/(c sqrt(k)), c = G/sqrt(d): the configured value, or the one that theorem 1
    or the accountant requires for privacy.epsilon over all rounds."""
    settings = problem.settings
    if configured is not None:
        return configured
    if math.isinf(settings.privacy.epsilon):
        return 0.0
    if is_calibrated(settings.privacy):
        return run_noise_multiplier(
            problem,
            "record",
            lambda multiplier: tuple(
                Composed(releases(one, multiplier)) for one in (problem, *_with_more_steps(problem))
            ),
        )
    return theorem_1_noise(
        settings.privacy.epsilon,
        sampling_rate=problem.batch / problem.samples,
        participations=participations(problem, settings.run.rounds),
        steps=local_steps(problem),
        delta=settings.delta,
    )


def perturbed_sgd(problem: Problem, kept: int, configured: float | None, clip: float | None) -> PerturbedSgd:
    """Return local SGD with clipped and perturbed gradients on k coordinates (eq. 5).

    Args:
        problem: The problem.
        kept: k, trained coordinates.
        configured: The noise multiplier of the settings, if any.
        clip: c = G/sqrt(d), bound on a coordinate.
    """
    multiplier = noise_multiplier(problem, configured)
    if multiplier and clip is not None and math.isinf(clip):
        raise UserError(
            "scheme.coordinate_clip: noise protects only bounded coordinates, got inf; set a finite number, or "
            "scheme.noise_multiplier = 0.0"
        )
    return PerturbedSgd(kept, multiplier, clip)


def releases(problem: Problem, multiplier: float) -> Batches:
    """Return the releases of one participation: tau mini-batches of B of m records. A record changes a masked gradient
    by at most c sqrt(k)/B."""
    return mini_batches(multiplier, problem.batch, problem.samples, local_steps(problem))


def record_release(problem: Problem, configured: float | None) -> RecordRelease:
    """Return the record-level release of one participation.

    A device with more samples draws a smaller share of them for a mini-batch, but may draw more of these.
    """
    multiplier = noise_multiplier(problem, configured)
    return RecordRelease(
        releases(problem, multiplier),
        by_samples={one.samples: releases(one, multiplier) for one in problem.of_other_sizes},
        worse=tuple(releases(one, multiplier) for one in _with_more_steps(problem)),
    )


def _with_more_steps(problem: Problem) -> list[Problem]:
    """Return the problem of devices that take more local steps than all devices with fewer samples."""
    found, most = [], local_steps(problem)
    for one in problem.of_other_sizes:
        if local_steps(one) > most:
            most = local_steps(one)
            found.append(one)
    return found


def theorem_1_claim(problem: Problem, configured: float | None) -> Claim:
    """Return the claim of theorem 1 for the mean number of participations so far."""
    multiplier, rate = noise_multiplier(problem, configured), problem.batch / problem.samples
    steps, delta = local_steps(problem), problem.settings.delta
    return Claim(
        epsilon=lambda report, rounds: (
            theorem_1_epsilon(multiplier, rate, participations(problem, rounds), steps, delta)
            if multiplier
            else math.inf
        ),
        scope="run",
    )
