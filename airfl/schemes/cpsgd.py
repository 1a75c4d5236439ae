"""cpSGD: quantised messages with binomial noise, added up as whole numbers (Agarwal et al. 2018; Fed-SPA section 5)."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.privacy.binomial import Quantised, cpsgd_epsilon, cpsgd_smallest_trials, rotated_bound
from airfl.privacy.binomial_release import BinomialRelease
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Claim, Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.server import Averaging
from airfl.stages import Clip, Stage
from airfl.stages.quantise import BinomialNoise, StochasticQuantise
from airfl.stages.rotation import Rotation
from channels.part import LEAST_SCALE, MOST_SCALE, parameter


class CpSgd(Scheme):
    """Clip to D = C, rotate if asked for, quantise to k levels in [-X, X], add Bin(m, 1/2), add up."""

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
        default=None, ge=1, description="m, trials of a device's binomial noise; default: the fewest with a guarantee"
    )
    rotation: bool = parameter(default=False, description="random rotation before quantising")
    quantiser_bound: float | None = parameter(
        default=None, ge=LEAST_SCALE, le=MOST_SCALE, description="X_max of the quantiser; default by the theorems"
    )

    def recipe(self, problem: Problem) -> Recipe:
        """Quantise, add noise, add up."""
        settings, clip_norm = problem.settings, problem.settings.local.update_bound
        if settings.server.weights != "equal":
            raise UserError(
                "server.weights: cpsgd adds whole numbers up, each device alike (given: "
                f'{settings.server.weights!r}); take "equal"'
            )
        rotation = Rotation(problem.dimension)
        entries = rotation.padded if self.rotation else problem.dimension
        limit = self.quantiser_bound or (
            rotated_bound(clip_norm, settings.run.selected, entries, settings.delta) if self.rotation else clip_norm
        )
        message = Quantised(self.levels, limit, min(clip_norm, limit * math.sqrt(entries)), entries)
        trials = trials_of_a_device(problem, message, self.trials)
        rotated: tuple[Stage, ...] = (rotation,) if self.rotation else ()
        return Recipe(
            stages=(Clip(clip_norm), *rotated, StochasticQuantise(self.levels, limit), BinomialNoise(trials)),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
            release=BinomialRelease(message, trials),
            claim=claim(problem, message, trials),
        )


def trials_of_a_device(problem: Problem, message: Quantised, given: int | None) -> int:
    """m: as given, or the fewest with a guarantee where all r are heard. UserError for fewer than that."""
    run = problem.settings.run
    rate = run.selected / run.devices
    needed = -(-cpsgd_smallest_trials(message, rate, run.rounds, problem.settings.delta) // run.selected)
    if given is not None and given < needed:
        raise UserError(
            f"scheme.trials: binomial noise of {given:,} trials a device has no guarantee; with {message.levels} "
            f"levels and {run.selected} devices a round {needed:,} are needed"
        )
    return needed if given is None else given


def claim(problem: Problem, message: Quantised, trials: int) -> Claim:
    """The paper's own accounting, everybody heard."""
    run = problem.settings.run
    rate, all_trials = run.selected / run.devices, trials * run.selected
    return Claim(
        epsilon=lambda report, rounds: cpsgd_epsilon(message, all_trials, rate, rounds, problem.settings.delta),
        scope="run",
    )
