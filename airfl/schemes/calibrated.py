"""privacy.bound = "accountant": the noise that ends the whole run at privacy.epsilon, for the sampler that runs."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.privacy.calibration import EventOf, calibrated, smallest_noise
from airfl.privacy.statement import Level, Statement, statement_of
from airfl.selection import SelectionRule, most_participations
from airfl.stages.feedback import ErrorFeedback
from airfl.stages.stage import Stage, bound_after

if TYPE_CHECKING:
    from airfl.config.radio import SelectionSettings
    from airfl.config.settings import PrivacySettings, RunSettings
    from airfl.schemes.recipe import Problem


def is_calibrated(privacy: PrivacySettings) -> bool:
    """Whether noise is to follow the accountant, and there is something to keep to."""
    return privacy.bound == "accountant" and math.isfinite(privacy.epsilon)


def run_noise_multiplier(
    problem: Problem,
    level: Level = "client",
    event_of: EventOf | None = None,
    memory: bool = False,
    own_noise: bool = True,
) -> float:
    """The smallest noise multiplier that every round may have; event_of: what a round releases with one, Gaussian noise
    if not given; memory: whether devices send of what they kept; own_noise: whether it is they who bring the noise."""
    settings = problem.settings
    statement = statement_of(settings, level, problem.link, calibrated=True, memory=memory, own_noise=own_noise)
    participations = participations_of(settings.selection, settings.run, statement)
    if event_of is None:
        return calibrated(statement, settings.privacy.epsilon, settings.run.rounds, participations)
    return smallest_noise(statement, settings.privacy.epsilon, settings.run.rounds, participations, event_of)


def largest_alignment(problem: Problem, stages: tuple[Stage, ...]) -> float:
    """beta at which the receiver's noise is that multiple of one device's largest contribution: sigma_0/(z C)."""
    sensitivity = bound_after(stages, problem.dimension).sensitivity * problem.largest_weight
    if math.isinf(sensitivity):
        raise UserError(
            f"privacy.bound: messages of scheme {problem.settings.scheme.name!r} have no bound with error feedback, so "
            'that no beta ends at an epsilon; take "paper", or scheme.error_feedback = false'
        )
    memory = any(isinstance(stage, ErrorFeedback) for stage in stages)
    return problem.noise_std / (run_noise_multiplier(problem, memory=memory, own_noise=False) * sensitivity)


def participations_of(selection: SelectionSettings, run: RunSettings, statement: Statement) -> int:
    """Rounds of the device that is in most of them, which count where the observer knows it; 1 where nobody does."""
    if statement.hidden:
        return 1
    return _most(selection.rule, run.seed, run.rounds, run.devices, run.selected)


@functools.lru_cache(maxsize=16)
def _most(rule: SelectionRule, seed: int, rounds: int, devices: int, selected: int) -> int:
    from airfl.streams import Streams

    return most_participations(rule, Streams(seed), rounds, devices, selected)
