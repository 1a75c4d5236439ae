"""How values are searched for: the arguments of `tune`, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airfl.errors import UserError, unknown_name
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.trials.storage import check_storage

STUDY = "airfl"
"""The default name of a study."""
PRUNERS = ("none", "median", "halving")
RANDOM_TRIALS = 10


@dataclass(frozen=True)
class SearchPlan:
    """How values are searched for.

    Attributes:
        trials: Number of trials per row, of all clients together.
        random_trials: Number of trials per row whose values are drawn at random, before Optuna's sampler (TPE) learns.
        prune: none, median or halving: which of Optuna's pruners ends trials early.
        prune_after: Number of rounds before which no trial is ended.
        storage: A database as an SQLAlchemy URL, or the path of a journal file; None for one in the output folder.
        study: Name of the study in it.
    """

    trials: int
    random_trials: int = RANDOM_TRIALS
    prune: str = "none"
    prune_after: int = 0
    storage: str | None = None
    study: str = STUDY

    @property
    def prunes(self) -> bool:
        """Whether trials may be ended early."""
        return self.prune != "none"


def plan_of(
    trials: int | None,
    random_trials: int = RANDOM_TRIALS,
    prune: str = "none",
    storage: str | Path | None = None,
    study: str = STUDY,
) -> SearchPlan | None:
    """Return the plan that arguments of `tune` describe, None for a grid; UserError if they are invalid.

    prune: none, median or halving, or for instance median:20, which ends no trial before round 20.
    """
    rule, colon, after = prune.partition(":")
    if rule not in PRUNERS:
        raise UserError(unknown_name("--prune", rule, PRUNERS))
    if colon and (rule == "none" or not after.isdecimal()):
        raise UserError(f"--prune: must be none, median, halving, or with a number of rounds median:20, got {prune!r}")
    where = None if storage is None else str(storage)
    plan = SearchPlan(trials or 0, random_trials, rule, int(after or 0), where, study)
    if plan.random_trials < 1:
        raise UserError(f"--random-trials: must be at least 1, got {plan.random_trials}")
    if trials is None:
        default = SearchPlan(0)
        options = ("prune", "storage", "study", "random_trials")
        given = [name for name in options if getattr(plan, name) != getattr(default, name)]
        if given:
            option = f"--{given[0].replace('_', '-')}"
            raise UserError(f"{option}: is for a search; give --trials too, or omit it, as a grid is run in full")
        return None
    if trials < 1:
        raise UserError(f"--trials: must be at least 1, got {trials}")
    if plan.study != STUDY and plan.storage is None:
        raise UserError("--study: names a study in a storage; give --storage too, or omit it")
    if plan.storage is not None:
        check_storage(plan.storage)
    return plan


def check_evaluations(plan: SearchPlan, points: Sequence[SweepPoint]) -> None:
    """Raise UserError if no evaluation could end a run of these points early."""
    for point in points if plan.prunes else ():
        run = point.settings.run
        if run.evaluate_every >= run.rounds or plan.prune_after >= run.rounds:
            raise UserError(
                f"--prune: no evaluation after round {plan.prune_after} could end a run early, with run.rounds = "
                f"{run.rounds} and run.evaluate_every = {run.evaluate_every}; evaluate more often, or omit --prune"
            )
