"""What Fed-SPA and DP-Fed share: the paper, local steps under noise, the claim of theorem 1."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.local.work import PerturbedSgd
from airfl.privacy.events import Composed
from airfl.privacy.fed_spa import theorem_1_epsilon, theorem_1_noise
from airfl.privacy.record import Batches, mini_batches
from airfl.privacy.release import RecordRelease
from airfl.schemes.calibrated import is_calibrated, run_noise_multiplier
from airfl.schemes.recipe import Claim, Problem

PAPER = (
    "Hu, Gong, Guo: Federated learning with sparsification-amplified privacy and adaptive optimization (Fed-SPA, 2021)"
)


def local_steps(problem: Problem) -> int:
    """tau, of the device that has fewest samples."""
    local = problem.settings.local
    return local.steps or local.epochs * -(-problem.samples // local.batch_size)


def participations(problem: Problem, rounds: int) -> float:
    """I_i in the mean: rounds r/N."""
    run = problem.settings.run
    return rounds * run.selected / run.devices


def noise_multiplier(problem: Problem, given: float | None) -> float:
    """sigma B/(c sqrt(k)), c = G/sqrt(d): as given, or what theorem 1, or the accountant, asks for at privacy.epsilon
    after all rounds."""
    settings = problem.settings
    if given is not None:
        return given
    if math.isinf(settings.privacy.epsilon):
        return 0.0
    if is_calibrated(settings.privacy):
        return run_noise_multiplier(problem, "record", lambda multiplier: Composed(releases(problem, multiplier)))
    return theorem_1_noise(
        settings.privacy.epsilon,
        sampling_rate=problem.batch / problem.samples,
        participations=participations(problem, settings.run.rounds),
        steps=local_steps(problem),
        delta=settings.delta,
    )


def perturbed_sgd(problem: Problem, kept: int, given: float | None, clip: float | None) -> PerturbedSgd:
    """Local SGD with clipped and perturbed gradients on k coordinates (eq. 5); given: the noise multiplier; clip:
    c = G/sqrt(d)."""
    multiplier = noise_multiplier(problem, given)
    if multiplier and clip is not None and math.isinf(clip):
        raise UserError(
            "scheme.coordinate_clip: without a bound on coordinates no noise protects (given: inf); give a number, or "
            "scheme.noise_multiplier = 0.0"
        )
    return PerturbedSgd(kept, multiplier, clip)


def releases(problem: Problem, multiplier: float) -> Batches:
    """tau mini-batches of B of m records a participation; a record moves a masked gradient by c sqrt(k)/B at most."""
    return mini_batches(multiplier, problem.batch, problem.samples, local_steps(problem))


def record_release(problem: Problem, given: float | None) -> RecordRelease:
    """What a participation gives away."""
    return RecordRelease(releases(problem, noise_multiplier(problem, given)))


def theorem_1_claim(problem: Problem, given: float | None) -> Claim:
    """Theorem 1 with the mean number of participations so far."""
    multiplier, rate = noise_multiplier(problem, given), problem.batch / problem.samples
    steps, delta = local_steps(problem), problem.settings.delta
    return Claim(
        epsilon=lambda report, rounds: (
            theorem_1_epsilon(multiplier, rate, participations(problem, rounds), steps, delta)
            if multiplier
            else math.inf
        ),
        scope="run",
    )
