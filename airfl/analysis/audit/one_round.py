"""The attack on one round from theta^0, run many times with a canary in one device and without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from airfl.analysis.audit.canaries import (
    Array,
    Progress,
    Rules,
    absent_value,
    are_shown,
    attacked,
    canary_hook,
    canary_mu,
    canary_norm,
    log_likelihood_ratio,
    observe,
    received_devices,
    rules,
)
from airfl.analysis.audit.options import FEWEST_TRIALS, Options
from airfl.analysis.audit.statistics import gaussian_mu, one_round_epsilon, pair_epsilon, threshold_trials
from airfl.core.round import account, exchange
from airfl.core.state import State, World
from airfl.errors import UserError
from airfl.privacy.gaussian import sampled_gaussian_epsilon


@dataclass(frozen=True)
class Trial:
    """One round, run with the canary and without it.

    Attributes:
        with_canary: The broadcast in the canary's coordinate over its noise level, with the canary.
        without: The same without the canary.
        mu: A canary's contribution to the broadcast over its noise level, twice that where the other devices are
            opposed; inf without noise, 0 where nothing is released.
        took_part: Whether the canary's device took part, which the observer may not know.
        shown: Whether the mask of the round shows the canary's coordinate, which the observer knows.
        epsilon_paper: Epsilon that the scheme's paper claims for the round, or for a run of such rounds; nan without a
            claim.
        epsilon_round: Upper bound on epsilon of the round.
    """

    with_canary: float
    without: float
    mu: float
    took_part: bool
    shown: bool
    epsilon_paper: float
    epsilon_round: float


@dataclass(frozen=True)
class RoundAudit:
    """The result of an audit of single rounds. Claimed and accounted figures are the largest over the rounds.

    Attributes:
        epsilon_paper: Epsilon that the scheme's paper claims; nan without a claim.
        epsilon_round: Upper bound on epsilon of the round.
        epsilon_lower: Lower bound without assumptions.
        epsilon_lower_gaussian: Lower bound for Gaussian noise; nan where the noise is not Gaussian.
    """

    epsilon_paper: float
    epsilon_round: float
    epsilon_lower: float
    epsilon_lower_gaussian: float


def audit_rounds(world: World, options: Options, progress: Progress | None = None) -> RoundAudit:
    """Run all trials and return their bounds."""
    world = attacked(world, options)
    parameters, trials = world.model.initial(), []
    for index in range(options.trials):
        trials.append(run_trial(world, options, parameters, index))
        if progress:
            progress(index + 1, options.trials)
    return evaluate(trials, rules(world, options), world.ledger.statement.delta, options.confidence)


def run_trial(world: World, options: Options, parameters: Tensor, index: int) -> Trial:
    """Run a round with the selection, fading, mask and noise of round `index`, with and without a canary in the device
    of largest weight."""
    scenario = world.scenario
    ids, norm = np.array([np.argmax(scenario.weights)]), canary_norm(world)
    others = -norm if options.others == "opposed" else None

    def outcome(amplitude: float) -> tuple[float, float, bool, bool, float, float]:
        planted = canary_hook(ids, np.array([amplitude]), scenario.bound.seen < 1, others)
        exchanged = exchange(world, State(index, parameters, scenario.memory), planted)
        # Past the end of the run, as the ledger would compose all rounds after the run's last one.
        privacy = account(world, exchanged, scenario.run.rounds + 1 + index, compose=False)
        claim = scenario.recipe.claim
        if claim and claim.scope == "run":
            privacy["epsilon_paper"] = claim.epsilon(exchanged.reception.report, scenario.run.rounds)
        mu = canary_mu(world, exchanged, privacy)
        # The observer knows what opposed devices send, and subtracts the sum of their messages.
        known = received_devices(exchanged) * mu if others and math.isfinite(mu) else 0.0
        return (
            float(observe(world, exchanged, 1)[0]) + known,
            mu,
            bool(np.isin(ids, exchanged.plan.devices)[0]),
            bool(are_shown(world, exchanged, 1)[0]),
            float(privacy["epsilon_paper"]),
            float(privacy["epsilon_round"]),
        )

    without, mu, took_part, shown, paper, tight = outcome(absent_value(world, options))
    # A canary that is not sent has no effect, so the round is not run again.
    with_canary = outcome(norm)[0] if took_part and shown else without
    return Trial(with_canary, without, mu * (2 if others else 1), took_part, shown, paper, tight)


def evaluate(trials: Sequence[Trial], rules: Rules, delta: float, confidence: float) -> RoundAudit:
    """Return the bounds of these trials. Raises UserError where the observer knows who takes part and the canary's
    device took part too rarely."""
    counted = [trial for trial in trials if trial.took_part or not rules.known]
    if len(counted) < FEWEST_TRIALS:
        raise UserError(
            f"--trials: the canary's device was selected in {len(counted)} of {len(trials)} rounds, but selection by "
            f"the channel needs at least {FEWEST_TRIALS}; give more trials"
        )
    with_canary = np.array([trial.with_canary for trial in counted])
    without = np.array([trial.without for trial in counted])
    took_part, shown = (np.array([getattr(trial, name) for trial in counted]) for name in ("took_part", "shown"))
    mu = np.array([trial.mu for trial in counted])

    noise = (with_canary + without) / 2 if rules.mirrored else without
    first = noise[: threshold_trials(len(noise))][shown[: threshold_trials(len(noise))]]
    centre = float(np.median(first)) if len(first) else 0.0
    # Behind the mask there is nothing to tell the two apart.
    present = np.where(shown, log_likelihood_ratio(with_canary - centre, mu, rules), 0.0)
    absent = np.where(shown, log_likelihood_ratio(without - centre, mu, rules), 0.0)
    return RoundAudit(
        epsilon_paper=_largest([trial.epsilon_paper for trial in trials]),
        epsilon_round=_largest([trial.epsilon_round for trial in trials]),
        epsilon_lower=one_round_epsilon(present, absent, delta, confidence),
        epsilon_lower_gaussian=gaussian_bound(
            noise[shown], (with_canary - without)[took_part & shown], rules, delta, confidence
        ),
    )


def gaussian_bound(noise: Array, shifts: Array, rules: Rules, delta: float, confidence: float) -> float:
    """Return epsilon for a canary in Gaussian noise that takes part at the known rate; nan for noise that is not
    Gaussian.

    Args:
        noise: Observations without the canary in the trials whose mask shows it, [n].
        shifts: Differences between a trial with and the same without the canary, which have the same noise, [m].
        rules: What the observer knows.
        delta: Of the privacy statement; a mask that shows the canary with a probability multiplies delta by it.
        confidence: Of the bound.
    """
    if len(noise) < 2:
        return math.nan
    mu = gaussian_mu(noise, shifts / 2 if rules.mirrored else shifts, confidence)
    if math.isnan(mu):
        return mu
    epsilon = pair_epsilon if rules.mirrored else sampled_gaussian_epsilon
    return epsilon(delta / rules.seen, mu, rules.rate) if delta < rules.seen else 0.0


def _largest(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return max(known, default=math.nan)
