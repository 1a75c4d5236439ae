"""SoteriaFL's framework (algorithm 2): gradient estimator, perturbation, direct or shifted compression, descent."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Literal

from airfl.errors import UserError
from airfl.learning.server import Descent
from airfl.learning.work import Estimator, GradientEstimate
from airfl.privacy.events import Composed, masked
from airfl.privacy.record import Batches, mini_batches, variance_reduced_batches
from airfl.privacy.soteriafl import noise_std as theorem_2_noise_std
from airfl.privacy.soteriafl import theorem_2_epsilon
from airfl.schemes import parameters
from airfl.schemes.calibrated import is_calibrated, run_noise_multiplier
from airfl.schemes.keys import PRIVACY, STEP
from airfl.schemes.recipe import Claim, Problem, Recipe
from airfl.schemes.release import RecordRelease
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import PerDeviceRandK, ShiftedCompression, Stage, bound_after, kept_entries, shift_step
from channels.part import LEAST_SCALE, MOST_SCALE, parameter

PAPER = (
    "Li, Zhao, Li, Chi: SoteriaFL: a unified framework for private federated learning with communication compression "
    "(2022)"
)
VARIANCE_REDUCED = ("svrg", "saga")


class GradientScheme(Scheme):
    """Base class for algorithm 2 with a gradient estimator and a compressor.

    Attributes:
        estimator: The estimator of g_i in algorithm 3.
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
        description="G, bound on the l2 norm of a gradient; inf disables clipping",
    )
    clip: Literal["sample", "batch"] = parameter(
        default="sample",
        description="what gradient_clip bounds: the gradient of every record, or the mean of the mini-batch as in "
        "SoteriaFL's public code, which has a sensitivity of 2G instead of 2G/b",
    )
    noise_constant: float = parameter(
        default=48.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        description="c of SoteriaFL's eq. 4; its public code corresponds to 48, for CDP-SGD and LDP-SGD to 32",
    )

    @abstractmethod
    def compressor(self, problem: Problem) -> tuple[Stage, ...]:
        """Return the stages of the compressor C_i^t: none, `direct` (algorithm 1) or `shifted` (algorithm 2)."""

    @property
    def draws_again(self) -> bool:
        """Whether a record may be in a mini-batch several times."""
        return False

    def snapshot(self, problem: Problem) -> float:
        """Return the probability that SVRG refreshes its snapshot."""
        return problem.batch / problem.samples

    def recipe(self, problem: Problem) -> Recipe:
        """Estimate, perturb and compress gradients, then descend (algorithm 2)."""
        self._check_bounded(problem)
        std = noise_std(self, problem)
        self._check_replacement(std)
        return Recipe(
            local=self._local_work(problem, std),  # algorithm 3, lines 3 to 12
            stages=self.compressor(problem),  # algorithm 2, lines 5 and 6
            uplink=problem.uplink(),
            server=Descent(problem.settings.server, problem.settings.local),  # lines 8 and 9
            release=RecordRelease(
                releases(self, problem, std),
                attained=self._attained,
                by_samples={one.samples: releases(self, one, std) for one in problem.of_other_sizes},
            ),
            claim=theorem_2_claim(self, problem),
        )

    def _local_work(self, problem: Problem, std: float) -> GradientEstimate:
        """Return the local work g_i = g~_i + xi_i."""
        return GradientEstimate(
            estimator=self.estimator,
            clip_norm=None if math.isinf(self.gradient_clip) else self.gradient_clip,
            clip=self.clip,
            refresh=self.snapshot(problem),
            noise_std=std,
            replacement=self.draws_again,
        )

    @property
    def _attained(self) -> bool:
        return self.estimator not in VARIANCE_REDUCED and not self.draws_again

    def _check_replacement(self, std: float) -> None:
        if self.draws_again and self.clip == "sample" and std:
            raise UserError(
                "scheme.replacement: there is no bound on epsilon for mini-batches with replacement whose samples are "
                "clipped, as a record may be in one several times; set scheme.clip = batch, scheme.replacement = "
                "false, or scheme.noise_multiplier = 0.0"
            )

    def _check_bounded(self, problem: Problem) -> None:
        unbounded = math.isinf(self.gradient_clip) and self.noise_multiplier != 0
        if unbounded and math.isfinite(problem.settings.privacy.epsilon):
            raise UserError(
                "scheme.gradient_clip: noise protects only bounded gradients, got inf; set a finite number, or "
                "scheme.noise_multiplier = 0.0"
            )


class MiniBatchScheme(GradientScheme):
    """Base class of the schemes whose mini-batches may be drawn with replacement."""

    replacement: bool = parameters.replacement()

    @property
    def draws_again(self) -> bool:
        """Whether a record may be in a mini-batch several times."""
        return self.replacement


def direct(problem: Problem, ratio: float) -> tuple[Stage, ...]:
    """Return direct compression: independent rand-k of each device, scaled by d/k."""
    return (PerDeviceRandK(problem.dimension, kept_entries(ratio, problem.dimension), rescale=True),)


def shifted(problem: Problem, ratio: float, gamma: float | None) -> tuple[Stage, ...]:
    """Return shifted compression: rand-k of the difference to a shift, with omega = d/k - 1 (example 1)."""
    settings, dimension = problem.settings, problem.dimension
    kept = kept_entries(ratio, dimension)
    return (
        ShiftedCompression(
            PerDeviceRandK(dimension, kept, rescale=True),
            gamma=shift_step(dimension / kept - 1) if gamma is None else gamma,
            participation=settings.run.selected / settings.run.devices,
            dimension=dimension,
            mean_over_received=settings.power.divide_by == "active",
        ),
    )


def noise_std(scheme: GradientScheme, problem: Problem) -> float:
    """Return sigma_p: from scheme.noise_multiplier if set, else as theorem 2 (eq. 4) or the accountant requires for
    privacy.epsilon over all rounds.

    The multiplier is the noise over the largest contribution of one record to the mean gradient.
    """
    settings = problem.settings
    if scheme.noise_multiplier is not None:
        return scheme.noise_multiplier * largest_share(scheme, problem) if scheme.noise_multiplier else 0.0
    if math.isinf(settings.privacy.epsilon):
        return 0.0
    if is_calibrated(settings.privacy):
        share, seen = largest_share(scheme, problem), bound_after(scheme.compressor(problem), problem.dimension).seen
        return share * run_noise_multiplier(
            problem,
            "record",
            lambda multiplier: masked(Composed(releases(scheme, problem, multiplier * share)), seen),
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
    """Return the largest contribution of one record to the mean gradient: G/b, for gd G/m."""
    return scheme.gradient_clip / (problem.samples if scheme.estimator == "gd" else problem.batch)


def releases(scheme: GradientScheme, problem: Problem, std: float) -> Batches:
    """Return the releases of one participation with noise sigma_p = std: b of m records are drawn, and every gradient
    is bounded by G. Without noise or a bound the noise multiplier is 0.

    If the mean of the mini-batch is clipped (scheme.clip = batch), one record can move it by 2G, so the multiplier is
    the noise over G. That holds however often the record is in the mini-batch. With replacement it is in it with
    probability 1 - (1 - 1/m)^b, which is at most b/m, and the bound on a sample grows with that probability (Balle,
    Barthe, Gaboardi 2018, theorems 9 and 10), so that the event without replacement bounds it.
    """
    samples, clip, estimator = problem.samples, scheme.gradient_clip, scheme.estimator
    batch = samples if estimator == "gd" else problem.batch
    if not std or math.isinf(clip):
        return mini_batches(0.0, batch, samples)
    if scheme.clip == "batch":
        # The gradient of a snapshot or table contains every record, regardless of the batch.
        return mini_batches(std / clip, samples if estimator in VARIANCE_REDUCED else batch, samples)
    if estimator in VARIANCE_REDUCED:
        return variance_reduced_batches(std, clip, batch, samples)
    return mini_batches(std * batch / clip, batch, samples)


def theorem_2_claim(scheme: GradientScheme, problem: Problem) -> Claim:
    """Return the claim of theorem 2, solved for epsilon after the mean number of participations so far."""
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
