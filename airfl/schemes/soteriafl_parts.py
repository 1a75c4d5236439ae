"""SoteriaFL's framework (algorithm 2): gradient estimator, perturbation, compression direct or shifted, descent."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Literal

from airfl.errors import UserError
from airfl.local.work import Estimator, GradientEstimate
from airfl.privacy.events import Composed
from airfl.privacy.record import Batches, mini_batches, variance_reduced_batches
from airfl.privacy.release import RecordRelease
from airfl.privacy.soteriafl import noise_std as theorem_2_noise_std
from airfl.privacy.soteriafl import theorem_2_epsilon
from airfl.schemes import parameters
from airfl.schemes.calibrated import is_calibrated, run_noise_multiplier
from airfl.schemes.keys import PRIVACY, STEP
from airfl.schemes.recipe import Claim, Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.server import Descent
from airfl.stages import OwnRandK, ShiftedCompression, Stage, kept_entries, shift_step
from channels.part import LEAST_SCALE, MOST_SCALE, parameter

PAPER = (
    "Li, Zhao, Li, Chi: SoteriaFL: a unified framework for private federated learning with communication compression "
    "(2022)"
)
VARIANCE_REDUCED = ("svrg", "saga")


class GradientScheme(Scheme):
    """Algorithm 2 with an estimator of the gradient and a compression.

    Attributes:
        estimator: g_i of algorithm 3.
    """

    paper = PAPER
    links = ("digital", "ideal")
    uses = STEP | PRIVACY
    estimator: ClassVar[Estimator]

    noise_multiplier: float | None = parameters.noise_multiplier()
    gradient_clip: float = parameter(
        default=1.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(math.inf,),
        description="G, bound on the l2 norm of a gradient; inf = no clipping",
    )
    clip: Literal["sample", "batch"] = parameter(
        default="sample",
        description="what gradient_clip bounds: every record's gradient, or the mini-batch's mean as SoteriaFL's "
        "public code does, which costs a sensitivity of 2G instead of 2G/b",
    )
    noise_constant: float = parameter(
        default=48.0, ge=LEAST_SCALE, le=MOST_SCALE, description="c of SoteriaFL's eq. 4; its public code amounts to 48"
    )

    @abstractmethod
    def compressor(self, problem: Problem) -> tuple[Stage, ...]:
        """C_i^t: nothing, `direct` (algorithm 1) or `shifted` (algorithm 2)."""

    def snapshot(self, problem: Problem) -> float:
        """Probability that SVRG moves its snapshot."""
        return problem.batch / problem.samples

    def recipe(self, problem: Problem) -> Recipe:
        """Algorithm 2."""
        self._check_protected(problem)
        std = noise_std(self, problem)
        return Recipe(
            local=self._local_work(problem, std),  # algorithm 3, lines 3 to 12
            stages=self.compressor(problem),  # algorithm 2, lines 5 and 6
            uplink=problem.uplink(),
            server=Descent(problem.settings.server, problem.settings.local),  # lines 8 and 9
            release=RecordRelease(releases(self, problem, std), attained=self.estimator not in VARIANCE_REDUCED),
            claim=theorem_2_claim(self, problem),
        )

    def _local_work(self, problem: Problem, std: float) -> GradientEstimate:
        """g_i = g~_i + xi_i."""
        return GradientEstimate(
            estimator=self.estimator,
            clip_norm=None if math.isinf(self.gradient_clip) else self.gradient_clip,
            clip=self.clip,
            refresh=self.snapshot(problem),
            noise_std=std,
        )

    def _check_protected(self, problem: Problem) -> None:
        unbounded = math.isinf(self.gradient_clip) and self.noise_multiplier != 0
        if unbounded and math.isfinite(problem.settings.privacy.epsilon):
            raise UserError(
                "scheme.gradient_clip: without a bound on gradients no noise protects; give a number, or "
                "scheme.noise_multiplier = 0.0"
            )


def direct(problem: Problem, ratio: float) -> tuple[Stage, ...]:
    """d/k rand_k of each device's own."""
    return (OwnRandK(problem.dimension, kept_entries(ratio, problem.dimension), rescale=True),)


def shifted(problem: Problem, ratio: float, gamma: float | None) -> tuple[Stage, ...]:
    """The same of the difference to a shift; omega = d/k - 1 (example 1)."""
    settings, dimension = problem.settings, problem.dimension
    kept = kept_entries(ratio, dimension)
    return (
        ShiftedCompression(
            OwnRandK(dimension, kept, rescale=True),
            gamma=shift_step(dimension / kept - 1) if gamma is None else gamma,
            participation=settings.run.selected / settings.run.devices,
            dimension=dimension,
            over_heard=settings.power.divide_by == "active",
        ),
    )


def noise_std(scheme: GradientScheme, problem: Problem) -> float:
    """sigma_p: given by scheme.noise_multiplier, or by theorem 2 (eq. 4) or the accountant at privacy.epsilon after all
    rounds.

    The multiplier is noise over the largest share of one record in the mean gradient.
    """
    settings = problem.settings
    if scheme.noise_multiplier is not None:
        return scheme.noise_multiplier * largest_share(scheme, problem) if scheme.noise_multiplier else 0.0
    if math.isinf(settings.privacy.epsilon):
        return 0.0
    if is_calibrated(settings.privacy):
        return largest_share(scheme, problem) * run_noise_multiplier(
            problem,
            "record",
            lambda multiplier: Composed(releases(scheme, problem, multiplier * largest_share(scheme, problem))),
        )
    return theorem_2_noise_std(
        settings.privacy.epsilon,
        estimator=scheme.estimator,
        clip_norm=scheme.gradient_clip,
        rounds=settings.run.rounds,
        samples=problem.samples,
        delta=settings.delta,
        constant=scheme.noise_constant,
    )


def largest_share(scheme: GradientScheme, problem: Problem) -> float:
    """G/b (gd: G/m), of one record in the mean gradient."""
    return scheme.gradient_clip / (problem.samples if scheme.estimator == "gd" else problem.batch)


def releases(scheme: GradientScheme, problem: Problem, std: float) -> Batches:
    """One participation under noise sigma_p = std: b of m records are drawn, every gradient is bounded by G; none where
    nothing is bounded.

    Clipping the mini-batch's mean (scheme.clip = batch) lets one record move it by 2G: the noise over G counts then.
    """
    samples, clip, estimator = problem.samples, scheme.gradient_clip, scheme.estimator
    batch = samples if estimator == "gd" else problem.batch
    if not std or math.isinf(clip):
        return mini_batches(0.0, batch, samples)
    if scheme.clip == "batch":
        # A snapshot's or a table's gradient has every record in it, whatever batch is drawn.
        return mini_batches(std / clip, samples if estimator in VARIANCE_REDUCED else batch, samples)
    if estimator in VARIANCE_REDUCED:
        return variance_reduced_batches(std, clip, batch, samples)
    return mini_batches(std * batch / clip, batch, samples)


def theorem_2_claim(scheme: GradientScheme, problem: Problem) -> Claim:
    """Theorem 2 solved for epsilon after so many rounds, each device in all of them."""
    settings, std = problem.settings, noise_std(scheme, problem)
    run, clip = settings.run, scheme.gradient_clip

    def epsilon(report: object, rounds: int) -> float:
        if not std or math.isinf(clip):
            return math.inf
        return theorem_2_epsilon(
            std,
            estimator=scheme.estimator,
            clip_norm=clip,
            rounds=rounds * run.selected / run.devices,
            samples=problem.samples,
            delta=settings.delta,
            constant=scheme.noise_constant,
        )

    return Claim(epsilon=epsilon, scope="run")
