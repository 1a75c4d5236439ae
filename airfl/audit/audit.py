"""An audit from its settings to its figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from airfl.audit.one_round import RoundAudit, audit_rounds
from airfl.audit.one_run import RunAudit, audit_run
from airfl.audit.options import Options, check_audit, check_cell, check_options
from airfl.config import Settings
from airfl.device import find_device
from airfl.round import World
from airfl.simulation import build_world
from airfl.tasks.datasets import data_folders

if TYPE_CHECKING:
    from airfl.tasks.own import Task

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Audit:
    """Claimed, tight, and found by attack; nan where nothing is claimed or the attack was not made.

    level, adjacency, sampling, observer, delta: of the ledger. attacker: whose view was attacked, a third party's, who
    sees no more than the server does. epsilon_paper, epsilon_round: of the trials' round that has most, of the run's
    where only that was attacked; epsilon_paper is of the whole run where claim_scope is "run"; epsilon: of the whole
    run. epsilon_lower: of one round, without assumptions; epsilon_lower_gaussian: if the noise is Gaussian;
    epsilon_lower_one_run: of the whole run. Each of the three holds with `confidence` by itself.
    """

    scheme: str
    level: str
    adjacency: str
    sampling: str
    observer: str
    attacker: str
    against: str
    others: str
    delta: float
    confidence: float
    rounds: int
    trials: int
    canaries: int
    claim_scope: str
    epsilon_paper: float
    epsilon_round: float
    epsilon: float
    epsilon_lower: float
    epsilon_lower_gaussian: float
    epsilon_lower_one_run: float


def audit(
    settings: Settings,
    options: Options | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    data_dir: str | Path | None = None,
    task: Task | None = None,
) -> Audit:
    """Attack runs of these settings; UserError for what the user can mend.

    progress(attack, done, of how many); data_dir, task: as in `run`.
    """
    options = options or Options()
    if task is None:  # what an own one is made of is known, and its cell is checked below
        check_audit(settings, options)
    else:
        check_options(options)
    torch_device = find_device(device)
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.run.threads or threads)
    try:
        world = build_world(without_compiling(settings, options), torch_device, data_folders(data_dir), task)
        check_cell(world.cell, options)
        of_a_round = audit_rounds(world, options, _labelled(progress, "one round")) if options.attack != "run" else None
        of_a_run = audit_run(world, options, _labelled(progress, "one run")) if options.attack != "round" else None
    finally:
        torch.set_num_threads(threads)
    return _together(world, options, of_a_round, of_a_run)


def without_compiling(settings: Settings, options: Options) -> Settings:
    """The settings as they are; where nobody trains, with the engine that takes no time to start."""
    return settings if options.others == "trained" else settings.resolved(local={"engine": "loop"})


def _together(world: World, options: Options, of_a_round: RoundAudit | None, of_a_run: RunAudit | None) -> Audit:
    settings, claim, statement, nan = world.cell.settings, world.cell.recipe.claim, world.ledger.statement, math.nan
    first = of_a_round or of_a_run
    assert first is not None
    return Audit(
        scheme=settings.scheme.name,
        level=statement.level,
        adjacency=statement.adjacency,
        sampling=statement.sampling,
        observer=statement.observer,
        attacker="third_party",
        against=options.against,
        others=options.others,
        delta=statement.delta,
        confidence=options.confidence,
        rounds=settings.run.rounds,
        trials=options.trials if of_a_round else 0,
        canaries=of_a_run.canaries if of_a_run else 0,
        claim_scope=claim.scope if claim else "none",
        epsilon_paper=first.epsilon_paper,
        epsilon_round=first.epsilon_round,
        epsilon=of_a_run.epsilon if of_a_run else nan,
        epsilon_lower=of_a_round.epsilon_lower if of_a_round else nan,
        epsilon_lower_gaussian=of_a_round.epsilon_lower_gaussian if of_a_round else nan,
        epsilon_lower_one_run=of_a_run.epsilon_lower if of_a_run else nan,
    )


def _labelled(progress: Progress | None, label: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(label, done, total)
