"""The attack on one whole run with many canaries, each included by an independent fair coin (Steinke, Nasr, Jagielski
2023, "Privacy auditing with one (1) training run")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from airfl.analysis.audit.canaries import (
    Progress,
    absent_value,
    are_shown,
    attacked,
    canary_hook,
    canary_mu,
    canary_norm,
    log_likelihood_ratio,
    observe,
    rules,
)
from airfl.analysis.audit.options import Options, canaries_of
from airfl.analysis.audit.statistics import one_run_epsilon
from airfl.core.round import account, exchange
from airfl.core.state import State, World
from airfl.runtime.streams import Purpose


@dataclass(frozen=True)
class RunAudit:
    """The result of an audit of one training run.

    Attributes:
        canaries: Number of planted canaries.
        epsilon_paper: Epsilon that the scheme's paper claims: the largest of a round, or of the run where the claim is
            for the run; nan without a claim.
        epsilon_round: Upper bound on epsilon of a round, the largest over rounds.
        epsilon: Upper bound on epsilon of the whole run.
        epsilon_lower: Lower bound on epsilon of the whole run.
    """

    canaries: int
    epsilon_paper: float
    epsilon_round: float
    epsilon: float
    epsilon_lower: float


def audit_run(world: World, options: Options, progress: Progress | None = None) -> RunAudit:
    """Train for run.rounds rounds and return the bounds. The score of a canary is the sum of the log-likelihood ratios
    of its rounds."""
    world = attacked(world, options)
    scenario, csi = world.scenario, rules(world, options)
    rounds, canaries, norm = scenario.run.rounds, canaries_of(scenario, options), canary_norm(world)
    generator = scenario.streams.generator(Purpose.AUDIT)
    ids = generator.choice(scenario.run.devices, canaries, replace=False)
    included = generator.random(canaries) < 0.5
    amplitudes = np.where(included, norm, absent_value(world, options))
    planted = canary_hook(ids, amplitudes, scenario.bound.seen < 1)
    weights = scenario.weights[ids] / scenario.weights.max()

    scores = np.zeros(canaries)
    claimed, tight, composed = [], [], math.nan
    state = State(0, world.model.initial(), scenario.memory)
    for index in range(rounds):
        exchanged = exchange(world, state, planted)
        privacy = account(world, exchanged, index + 1, compose=index + 1 == rounds)
        ratio = log_likelihood_ratio(
            observe(world, exchanged, canaries), canary_mu(world, exchanged, privacy) * weights, csi
        )
        ratio = ratio * are_shown(world, exchanged, canaries)
        scores += ratio * np.isin(ids, exchanged.plan.devices) if csi.known else ratio
        parameters = scenario.recipe.server.step(state.parameters, exchanged.mean_update, index, state.store)
        state = State(index + 1, parameters, exchanged.plan.memory, state.store)
        claimed.append(float(privacy["epsilon_paper"]))
        tight.append(float(privacy["epsilon_round"]))
        composed = float(privacy["epsilon"])
        if progress:
            progress(index + 1, rounds)

    claim = scenario.recipe.claim
    return RunAudit(
        canaries=canaries,
        epsilon_paper=claimed[-1] if claim and claim.scope == "run" else max(claimed),
        epsilon_round=max(tight),
        epsilon=composed,
        epsilon_lower=one_run_epsilon(scores, included, world.ledger.statement.delta, options.confidence),
    )
