"""SoteriaFL's framework (algorithm 2): gradient estimator, perturbation, compression direct or shifted, descent."""

from __future__ import annotations

import math
from collections.abc import Callable

from airfl.errors import UserError
from airfl.local.work import Estimator, GradientEstimate
from airfl.privacy.events import Composed
from airfl.privacy.record import Batches, mini_batches, variance_reduced_batches
from airfl.privacy.release import RecordRelease
from airfl.privacy.soteriafl import noise_std as theorem_2_noise_std
from airfl.privacy.soteriafl import theorem_2_epsilon
from airfl.schemes.calibrated import is_calibrated, run_noise_multiplier
from airfl.schemes.keys import PRIVACY, STEP, of_scheme
from airfl.schemes.recipe import Claim, Problem, Recipe, Scheme
from airfl.server import Descent
from airfl.stages import OwnRandK, ShiftedCompression, Stage, kept_entries, shift_step

PAPER = (
    "Li, Zhao, Li, Chi: SoteriaFL: a unified framework for private federated learning with communication compression "
    "(2022)"
)
VARIANCE_REDUCED = ("svrg", "saga")


def build_with(estimator: Estimator, compression: str) -> Callable[[Problem], Recipe]:
    """compression: "none", "direct" (algorithm 1) or "shifted" (algorithm 2)."""

    def build(problem: Problem) -> Recipe:
        settings = problem.settings
        _check(problem, estimator)
        return Recipe(
            local=local_work(problem, estimator),  # algorithm 3, lines 3 to 12
            stages=compressor(problem, compression),  # algorithm 2, lines 5 and 6
            uplink=problem.uplink(),
            server=Descent(settings),  # lines 8 and 9
            release=RecordRelease(
                releases(problem, estimator, noise_std(problem, estimator)), attained=estimator not in VARIANCE_REDUCED
            ),
            claim=theorem_2_claim(problem, estimator),
        )

    return build


def local_work(problem: Problem, estimator: Estimator) -> GradientEstimate:
    """g_i = g~_i + xi_i."""
    scheme = problem.settings.scheme
    return GradientEstimate(
        estimator=estimator,
        clip_norm=None if math.isinf(scheme.gradient_clip) else scheme.gradient_clip,
        clip=scheme.clip,
        refresh=problem.batch / problem.samples if scheme.refresh is None else scheme.refresh,
        noise_std=noise_std(problem, estimator),
    )


def compressor(problem: Problem, compression: str) -> tuple[Stage, ...]:
    """C_i^t: d/k rand_k of each device's own, omega = d/k - 1 (example 1)."""
    settings, dimension = problem.settings, problem.dimension
    kept = kept_entries(settings.scheme.ratio, dimension)
    rand_k = OwnRandK(dimension, kept, rescale=True)
    if compression == "none":
        return ()
    if compression == "direct":
        return (rand_k,)
    gamma = settings.scheme.gamma
    return (
        ShiftedCompression(
            rand_k,
            gamma=shift_step(dimension / kept - 1) if gamma is None else gamma,
            participation=settings.run.selected / settings.run.devices,
            dimension=dimension,
            over_heard=settings.power.divide_by == "active",
        ),
    )


def noise_std(problem: Problem, estimator: Estimator) -> float:
    """sigma_p: given by scheme.noise_multiplier, or by theorem 2 (eq. 4) or the accountant at privacy.epsilon after all
    rounds.

    The multiplier is noise over the largest share of one record in the mean gradient.
    """
    settings = problem.settings
    scheme, clip = settings.scheme, settings.scheme.gradient_clip
    if scheme.noise_multiplier is not None:
        return scheme.noise_multiplier * largest_share(problem, estimator) if scheme.noise_multiplier else 0.0
    if math.isinf(settings.privacy.epsilon):
        return 0.0
    if is_calibrated(settings):
        return largest_share(problem, estimator) * run_noise_multiplier(
            problem,
            "record",
            lambda multiplier: Composed(releases(problem, estimator, multiplier * largest_share(problem, estimator))),
        )
    return theorem_2_noise_std(
        settings.privacy.epsilon,
        estimator=estimator,
        clip_norm=clip,
        rounds=settings.run.rounds,
        samples=problem.samples,
        delta=settings.delta,
        constant=scheme.noise_constant,
    )


def largest_share(problem: Problem, estimator: Estimator) -> float:
    """G/b (gd: G/m), of one record in the mean gradient."""
    return problem.settings.scheme.gradient_clip / (problem.samples if estimator == "gd" else problem.batch)


def releases(problem: Problem, estimator: Estimator, std: float) -> Batches:
    """One participation under noise sigma_p = std: b of m records are drawn, every gradient is bounded by G; none where
    nothing is bounded.

    Clipping the mini-batch's mean (scheme.clip = batch) lets one record move it by 2G: the noise over G counts then.
    """
    scheme, samples = problem.settings.scheme, problem.samples
    clip = scheme.gradient_clip
    batch = samples if estimator == "gd" else problem.batch
    if not std or math.isinf(clip):
        return mini_batches(0.0, batch, samples)
    if scheme.clip == "batch":
        # A snapshot's or a table's gradient has every record in it, whatever batch is drawn.
        return mini_batches(std / clip, samples if estimator in VARIANCE_REDUCED else batch, samples)
    if estimator in VARIANCE_REDUCED:
        return variance_reduced_batches(std, clip, batch, samples)
    return mini_batches(std * batch / clip, batch, samples)


def theorem_2_claim(problem: Problem, estimator: Estimator) -> Claim:
    """Theorem 2 solved for epsilon after so many rounds, each device in all of them."""
    settings, std = problem.settings, noise_std(problem, estimator)
    run, clip = settings.run, settings.scheme.gradient_clip

    def epsilon(report: object, rounds: int) -> float:
        if not std or math.isinf(clip):
            return math.inf
        return theorem_2_epsilon(
            std,
            estimator=estimator,
            clip_norm=clip,
            rounds=rounds * run.selected / run.devices,
            samples=problem.samples,
            delta=settings.delta,
            constant=settings.scheme.noise_constant,
        )

    return Claim(epsilon=epsilon, scope="run")


def scheme(name: str, title: str, estimator: Estimator, compression: str) -> Scheme:
    """An entry of the table."""
    own = ["gradient_clip", "clip", "noise_multiplier", "noise_constant"]
    own += ["ratio"] if compression != "none" else []
    own += ["gamma"] if compression == "shifted" else []
    own += ["refresh"] if estimator == "svrg" else []
    return Scheme(
        name=name,
        title=title,
        paper=PAPER,
        links=("digital", "ideal"),
        build=build_with(estimator, compression),
        keys=STEP | PRIVACY | of_scheme(*own),
    )


def _check(problem: Problem, estimator: Estimator) -> None:
    scheme = problem.settings.scheme
    if (
        math.isinf(scheme.gradient_clip)
        and scheme.noise_multiplier != 0
        and math.isfinite(problem.settings.privacy.epsilon)
    ):
        raise UserError(
            "scheme.gradient_clip: without a bound on gradients no noise protects; give a number, or "
            "scheme.noise_multiplier = 0.0"
        )
