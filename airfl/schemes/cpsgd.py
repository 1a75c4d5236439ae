"""cpSGD: quantised messages with binomial noise, summed as integers (Agarwal et al. 2018; Fed-SPA section 5)."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.learning.server import Averaging
from airfl.privacy.binomial import Quantised, cpsgd_epsilon, cpsgd_smallest_trials, rotated_bound
from airfl.schemes.binomial_release import BinomialRelease
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Claim, Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, Stage
from airfl.uplinks.stages.quantise import BinomialNoise, StochasticQuantise
from airfl.uplinks.stages.rotation import Rotation
from channels.part import LEAST_SCALE, MOST_SCALE, parameter


class CpSgd(Scheme):
    """Clip to D = C, optionally rotate, quantise to k levels in [-X, X], add Bin(m, 1/2) noise and sum."""

    name = "cpsgd"
    title = "cpSGD"
    paper = (
        "Agarwal, Suresh, Yu, Kumar, McMahan: cpSGD: communication-efficient and differentially-private distributed "
        "SGD (2018)"
    )
    links = ("digital", "ideal")
    uses = LOCAL_SGD

    levels: int = parameter(default=256, ge=2, description="k, quantisation levels")
    trials: int | None = parameter(
        default=None,
        ge=1,
        description="m, trials of a device's binomial noise; default: the fewest that give a guarantee",
    )
    rotation: bool = parameter(default=False, description="apply a random rotation before quantising")
    quantiser_bound: float | None = parameter(
        default=None, ge=LEAST_SCALE, le=MOST_SCALE, description="X_max of the quantiser; default: as in the theorems"
    )

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, optionally rotate, quantise, add noise and sum."""
        settings, clip_norm = problem.settings, problem.settings.local.update_bound
        if settings.server.weights != "equal":
            raise UserError(
                f'server.weights: scheme "cpsgd" sums integers and needs "equal" weights, got '
                f"{settings.server.weights!r}"
            )
        rotation = Rotation(problem.dimension)
        entries = rotation.padded if self.rotation else problem.dimension
        limit = self.quantiser_bound or (
            rotated_bound(clip_norm, settings.run.selected, entries, settings.delta) if self.rotation else clip_norm
        )
        message = Quantised(self.levels, limit, min(clip_norm, limit * math.sqrt(entries)), entries)
        trials = trials_per_device(problem, message, self.trials)
        rotated: tuple[Stage, ...] = (rotation,) if self.rotation else ()
        return Recipe(
            stages=(Clip(clip_norm), *rotated, StochasticQuantise(self.levels, limit), BinomialNoise(trials)),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
            release=BinomialRelease(message, trials),
            claim=claim(problem, message, trials),
        )


def trials_per_device(problem: Problem, message: Quantised, configured: int | None) -> int:
    """Return m, the trials of a device's binomial noise: the configured number, or the fewest that give a guarantee
    when the messages of all r devices arrive. Raises UserError if fewer are configured."""
    run = problem.settings.run
    rate = run.selected / run.devices
    needed = -(-cpsgd_smallest_trials(message, rate, run.rounds, problem.settings.delta) // run.selected)
    if configured is not None and configured < needed:
        raise UserError(
            f"scheme.trials: must be at least {needed:,} for a privacy guarantee with {message.levels} levels and "
            f"{run.selected} devices per round, got {configured:,}"
        )
    return needed if configured is None else configured


def claim(problem: Problem, message: Quantised, trials: int) -> Claim:
    """Return the paper's own accounting, which assumes that all messages arrive."""
    run = problem.settings.run
    rate, all_trials = run.selected / run.devices, trials * run.selected
    return Claim(
        epsilon=lambda report, rounds: cpsgd_epsilon(message, all_trials, rate, rounds, problem.settings.delta),
        scope="run",
    )
