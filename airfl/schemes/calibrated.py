"""Noise calibration for privacy.bound = "accountant": the run as a whole ends at privacy.epsilon under the configured
device selection."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.privacy.calibration import EventOf, calibrated, smallest_noise
from airfl.privacy.statement import Level, Statement
from airfl.schemes.claims import statement_of
from airfl.selection import SelectionRule, most_participations
from airfl.uplinks.stages.stage import Stage, bound_after

if TYPE_CHECKING:
    from airfl.config.privacy import PrivacySettings
    from airfl.config.radio import SelectionSettings
    from airfl.config.run import RunSettings
    from airfl.schemes.recipe import Problem


def is_calibrated(privacy: PrivacySettings) -> bool:
    """Whether the accountant sets the noise, for a finite target epsilon."""
    return privacy.bound == "accountant" and math.isfinite(privacy.epsilon)


def run_noise_multiplier(
    problem: Problem,
    level: Level = "client",
    event_of: EventOf | None = None,
    memory: bool = False,
    device_noise: bool = True,
    seen: float = 1.0,
) -> float:
    """Return the smallest noise multiplier per round that keeps the run within privacy.epsilon.

    Args:
        problem: The problem.
        level: Whether a device or a record is protected.
        event_of: Maps a noise multiplier to the privacy event of a round; Gaussian noise by default.
        memory: Whether messages depend on state that devices keep between rounds.
        device_noise: Whether the devices, and not the channel, add the noise.
        seen: Share of a contribution that a random mask leaves, see `MessageBound`.
    """
    settings = problem.settings
    statement = statement_of(
        settings,
        level,
        problem.link,
        calibrated=True,
        memory=memory,
        device_noise=device_noise,
        silent=problem.silent,
    )
    participations = participations_of(settings.selection, settings.run, statement)
    if event_of is None:
        return calibrated(statement, settings.privacy.epsilon, settings.run.rounds, participations, seen)
    return smallest_noise(statement, settings.privacy.epsilon, settings.run.rounds, participations, event_of)


def largest_alignment(problem: Problem, stages: tuple[Stage, ...]) -> float:
    """Return the beta at which the receiver noise is the noise multiplier z times a device's largest contribution:
    sigma_0/(z C)."""
    bound = bound_after(stages, problem.dimension)
    sensitivity = bound.sensitivity * problem.largest_weight
    if math.isinf(sensitivity):
        raise UserError(
            f"privacy.bound: messages of scheme {problem.settings.scheme.name!r} are unbounded with error feedback, so "
            'no beta can be calibrated; use "paper", or scheme.error_feedback = false'
        )
    multiplier = run_noise_multiplier(problem, memory=bool(bound.device_state), device_noise=False, seen=bound.seen)
    return problem.noise_std / (multiplier * sensitivity)


def participations_of(selection: SelectionSettings, run: RunSettings, statement: Statement) -> int:
    """Return the largest number of rounds in which a device takes part; 1 if participation is hidden from the
    observer."""
    if statement.hidden:
        return 1
    return _most(selection.rule, run.seed, run.rounds, run.devices, run.selected)


@functools.lru_cache(maxsize=16)
def _most(rule: SelectionRule, seed: int, rounds: int, devices: int, selected: int) -> int:
    from airfl.runtime.streams import Streams

    return most_participations(rule, Streams(seed), rounds, devices, selected)
