"""One round from theta^0, played many times: with a canary in one device, and without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from airfl.audit.canaries import (
    Array,
    Progress,
    Rules,
    absent_value,
    attacked,
    canary_norm,
    heard,
    log_likelihood_ratio,
    observe,
    plant,
    rules,
    strength,
)
from airfl.audit.options import FEWEST_TRIALS, Options
from airfl.audit.statistics import choosing, gaussian_mu, one_round_epsilon, pair_epsilon
from airfl.errors import UserError
from airfl.privacy.gaussian import sampled_gaussian_epsilon
from airfl.round import State, World, account, exchange


@dataclass(frozen=True)
class Trial:
    """One round of the game, played with the canary and without it.

    Attributes:
        with_canary: The broadcast in the canary's place over its noise level, with the canary.
        without: The same without the canary.
        mu: A canary's share of the broadcast over its noise level, twice that where the other devices are opposed; inf
            without noise, 0 where nothing is released.
        took_part: Whether the canary's device did, which we know and the observer need not.
        epsilon_paper: Epsilon that the scheme's paper claims for the round, or for a run of so many; nan without a
            claim.
        epsilon_round: Tight epsilon of the round.
    """

    with_canary: float
    without: float
    mu: float
    took_part: bool
    epsilon_paper: float
    epsilon_round: float


@dataclass(frozen=True)
class RoundAudit:
    """What an audit of single rounds found. Claimed and tight figures are of the round that has most.

    Attributes:
        epsilon_paper: Epsilon that the scheme's paper claims; nan without a claim.
        epsilon_round: Tight epsilon of the round.
        epsilon_lower: Bound from below without assumptions.
        epsilon_lower_gaussian: Bound from below for Gaussian noise; nan where the noise is not Gaussian.
    """

    epsilon_paper: float
    epsilon_round: float
    epsilon_lower: float
    epsilon_lower_gaussian: float


def audit_rounds(world: World, options: Options, progress: Progress | None = None) -> RoundAudit:
    """Play all trials and judge them."""
    world = attacked(world, options)
    parameters, trials = world.model.initial(), []
    for index in range(options.trials):
        trials.append(play(world, options, parameters, index))
        if progress:
            progress(index + 1, options.trials)
    return judge(trials, rules(world, options), world.ledger.statement.delta, options.confidence)


def play(world: World, options: Options, parameters: Tensor, index: int) -> Trial:
    """Round `index`: its selection, fades, mask and noise, with a canary in the device that weighs most and without."""
    cell = world.cell
    ids, norm = np.array([np.argmax(cell.weights)]), canary_norm(world)
    others = -norm if options.others == "opposed" else None

    def played(amplitude: float) -> tuple[float, float, bool, float, float]:
        exchanged = exchange(world, State(index, parameters, cell.memory), plant(ids, np.array([amplitude]), others))
        # Past the end of the run: no trial is its last round, after which the ledger would add everything up.
        privacy = account(world, exchanged, cell.run.rounds + 1 + index, compose=False)
        claim = cell.recipe.claim
        if claim and claim.scope == "run":
            privacy["epsilon_paper"] = claim.epsilon(exchanged.reception.report, cell.run.rounds)
        mu = strength(world, exchanged, privacy)
        # Opposed devices are no secret: what they would send without anybody's canary is taken away.
        known = heard(exchanged) * mu if others and math.isfinite(mu) else 0.0
        return (
            float(observe(world, exchanged, 1)[0]) + known,
            mu,
            bool(np.isin(ids, exchanged.opening.devices)[0]),
            float(privacy["epsilon_paper"]),
            float(privacy["epsilon_round"]),
        )

    without, mu, took_part, paper, tight = played(absent_value(world, options))
    # A canary that is not selected changes nothing: the round need not be played again.
    with_canary = played(norm)[0] if took_part else without
    return Trial(with_canary, without, mu * (2 if others else 1), took_part, paper, tight)


def judge(trials: Sequence[Trial], rules: Rules, delta: float, confidence: float) -> RoundAudit:
    """The bounds of these trials. UserError where the canary hardly ever took part, and the observer knows when."""
    counted = [trial for trial in trials if trial.took_part or not rules.known]
    if len(counted) < FEWEST_TRIALS:
        raise UserError(
            f"--trials: the canary's device was chosen in {len(counted)} of {len(trials)} rounds, {FEWEST_TRIALS} are "
            "needed where the channel chooses; give more trials"
        )
    seen = np.array([trial.with_canary for trial in counted])
    without = np.array([trial.without for trial in counted])
    took_part = np.array([trial.took_part for trial in counted])
    mu = np.array([trial.mu for trial in counted])

    noise = (seen + without) / 2 if rules.mirrored else without
    centre = float(np.median(noise[: choosing(len(noise))]))
    present = log_likelihood_ratio(seen - centre, mu, rules)
    absent = log_likelihood_ratio(without - centre, mu, rules)
    return RoundAudit(
        epsilon_paper=_largest([trial.epsilon_paper for trial in trials]),
        epsilon_round=_largest([trial.epsilon_round for trial in trials]),
        epsilon_lower=one_round_epsilon(present, absent, delta, confidence),
        epsilon_lower_gaussian=gaussian_bound(noise, (seen - without)[took_part], rules, delta, confidence),
    )


def gaussian_bound(noise: Array, shifts: Array, rules: Rules, delta: float, confidence: float) -> float:
    """Epsilon of Gaussian noise around a canary that takes part at the known rate; nan where it is not Gaussian.

    shifts: between a trial with the canary and the same without it, noise and all, so that only its noise is unknown.
    """
    mu = gaussian_mu(noise, shifts / 2 if rules.mirrored else shifts, confidence)
    if math.isnan(mu):
        return mu
    epsilon = pair_epsilon if rules.mirrored else sampled_gaussian_epsilon
    return epsilon(delta, mu, rules.rate)


def _largest(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return max(known, default=math.nan)
