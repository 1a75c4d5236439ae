"""The audit of an experiment, from settings to figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from airfl.analysis.audit.one_round import RoundAudit, audit_rounds
from airfl.analysis.audit.one_run import RunAudit, audit_run
from airfl.analysis.audit.options import Options, check_audit, check_options, check_scenario
from airfl.config import Config, Overrides, Settings, load_settings
from airfl.config.arguments import public
from airfl.config.given import changes_of, task_of
from airfl.core.device import current, find_device
from airfl.core.progress import RoundProgress, asked_progress
from airfl.core.state import World
from airfl.core.world import build_world
from airfl.learning.tasks.datasets import data_folders
from airfl.runtime.text import brief

if TYPE_CHECKING:
    from airfl.learning.own_task import Task

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Audit:
    """The claimed epsilon, the epsilon by the ledger, and lower bounds by attack. A figure is nan where there is no
    claim or the attack was not run.

    Each of the three lower bounds holds with probability `confidence` on its own.

    Attributes:
        scheme: Name of the scheme.
        level: Whose data is protected, "client".
        adjacency: The relation that the epsilons are for, "add_remove" or "replace_one".
        sampling: How devices are selected, as the ledger accounts it.
        observer: From whom the ledger protects a client.
        attacker: Whose view is attacked: that of a third party, which sees at most what the server sees.
        against: What a device without its canary sends: nothing ("absent"), or the negated canary ("opposite").
        others: What the other devices send: "trained", "silent" or "opposed".
        delta: Of the privacy statement.
        confidence: Of each lower bound.
        rounds: T, of the run.
        trials: Rounds that were run, each with and without the canary; 0 where that attack was not run.
        canaries: Canaries in the attacked run; 0 where that attack was not run.
        claim_scope: What epsilon_paper refers to: a "round", the "run", or "none".
        epsilon_paper: Claimed by the paper, the largest over the attacked rounds.
        epsilon_round: By the ledger, the largest over the attacked rounds.
        epsilon: By the ledger, of the whole run; nan where no run was attacked.
        epsilon_lower: Lower bound for one round, without assumptions.
        epsilon_lower_gaussian: Lower bound for one round if the noise is Gaussian.
        epsilon_lower_one_run: Lower bound for the whole run.
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

    def __repr__(self) -> str:
        keys = ("scheme", "epsilon_paper", "epsilon_lower", "epsilon_round", "epsilon_lower_one_run", "epsilon")
        return brief(self, **{key: getattr(self, key) for key in keys})


@public
def audit(
    config: Config,
    options: Options | None = None,
    device: str = "cpu",
    progress: Progress | bool | None = None,
    data_dir: str | Path | None = None,
    *,
    overrides: Overrides = (),
    attack: str | None = None,
    trials: int | None = None,
    canaries: int | None = None,
    confidence: float | None = None,
    against: str | None = None,
    others: str | None = None,
    task: Task | None = None,
) -> Audit:
    """Attack runs of an experiment, and return lower bounds on epsilon next to the claimed and the accounted figures.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables: see
            `airfl.load_settings`.
        options: The options that follow `overrides` as one object, see `airfl.analysis.audit.options.Options`.
        device: "cpu", "cuda" or "cuda:1".
        progress: True shows a progress bar on a terminal or in a notebook, else plain lines. A function is called
            with the attack, the steps done, and the total number of steps.
        data_dir: As in `airfl.run`.
        task: As in `airfl.run`.
        overrides: As in `airfl.load_settings`.
        attack: "round" (one round, many times), "run" (a whole run with many canaries) or "both", the default.
        trials: Rounds, each run with and without the canary; default 2,000.
        canaries: Canaries in the whole run; default 100, fewer where they do not fit.
        confidence: Of each lower bound; default 0.95.
        against: What a device sends without its canary: nothing ("absent", the default) or the negated canary
            ("opposite").
        others: What the other devices send: their updates ("trained", the default), nothing ("silent"), or the negated
            canary ("opposed"), which is the worst case of replace-one.

    Raises UserError for invalid settings or options.
    """
    settings, task = load_settings(config, overrides), task_of(config, task, changes_of(overrides))
    asked = {
        "attack": attack,
        "trials": trials,
        "canaries": canaries,
        "confidence": confidence,
        "against": against,
        "others": others,
    }
    options = replace(options or Options(), **{key: value for key, value in asked.items() if value is not None})  # type: ignore[arg-type]
    if task is None:  # a task given as an object is already loaded, and its scenario is checked below
        check_audit(settings, options)
    else:
        check_options(options)
    torch_device = find_device(device)
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.run.threads or threads)
    try:
        with current(torch_device):
            world = build_world(without_compiling(settings, options), torch_device, data_folders(data_dir), task)
            check_scenario(world.scenario, settings, options)
            with asked_progress(progress, reporter, ()) as report:
                rounds = (
                    audit_rounds(world, options, _labelled(report, "one round")) if options.attack != "run" else None
                )
                run = audit_run(world, options, _labelled(report, "one run")) if options.attack != "round" else None
    finally:
        torch.set_num_threads(threads)
    return _combined(world, settings.scheme.name, options, rounds, run)


def reporter(shown: RoundProgress) -> Progress:
    """Return the function that reports the progress of the attacks."""
    report = shown.labelled_reporter()
    return lambda attack, done, total: report(attack, done, total, {"test_accuracy": math.nan})


def without_compiling(settings: Settings, options: Options) -> Settings:
    """Return the settings, with an engine that needs no compilation where no device trains."""
    return settings if options.others == "trained" else settings.resolved(local={"engine": "loop"})


def _combined(
    world: World, scheme: str, options: Options, of_rounds: RoundAudit | None, of_run: RunAudit | None
) -> Audit:
    claim, statement, nan = world.scenario.recipe.claim, world.ledger.statement, math.nan
    first = of_rounds or of_run
    assert first is not None
    return Audit(
        scheme=scheme,
        level=statement.level,
        adjacency=statement.adjacency,
        sampling=statement.sampling,
        observer=statement.observer,
        attacker="third_party",
        against=options.against,
        others=options.others,
        delta=statement.delta,
        confidence=options.confidence,
        rounds=world.scenario.run.rounds,
        trials=options.trials if of_rounds else 0,
        canaries=of_run.canaries if of_run else 0,
        claim_scope=claim.scope if claim else "none",
        epsilon_paper=first.epsilon_paper,
        epsilon_round=first.epsilon_round,
        epsilon=of_run.epsilon if of_run else nan,
        epsilon_lower=of_rounds.epsilon_lower if of_rounds else nan,
        epsilon_lower_gaussian=of_rounds.epsilon_lower_gaussian if of_rounds else nan,
        epsilon_lower_one_run=of_run.epsilon_lower if of_run else nan,
    )


def _labelled(progress: Progress | None, label: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(label, done, total)
