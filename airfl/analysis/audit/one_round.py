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
    observe_spread,
    received_devices,
    rules,
    spread_hook,
)
from airfl.analysis.audit.options import FEWEST_TRIALS, Options
from airfl.analysis.audit.statistics import gaussian_mu, one_round_epsilon, pair_epsilon, threshold_trials
from airfl.core.round import account, exchange
from airfl.core.state import Exchange, State, World
from airfl.errors import UserError
from airfl.privacy.gaussian import sampled_gaussian_epsilon


@dataclass(frozen=True)
class Seen:
    """What is seen of one canary in a round, run with it and without it.

    Attributes:
        with_canary: The broadcast in the canary's direction over its noise level, with the canary.
        without: The same without the canary.
        mu: The canary's contribution to the broadcast over its noise level, twice that where the other devices are
            opposed; inf without noise, 0 where nothing is released.
        shown: Whether the mask of the round shows the canary, which the observer knows.
    """

    with_canary: float
    without: float
    mu: float
    shown: bool = True


@dataclass(frozen=True)
class Trial:
    """One round.

    Attributes:
        single: What is seen of a canary in one coordinate, of which a mask shows all or nothing.
        spread: What is seen of a canary with equal entries, of which every mask shows a part; without a random mask the
            same as `single`.
        took_part: Whether the canary's device took part, which the observer may not know.
        epsilon_paper: Epsilon that the scheme's paper claims for the round, or for a run of such rounds; nan without a
            claim.
        epsilon_round: Upper bound on epsilon of the round.
    """

    single: Seen
    spread: Seen
    took_part: bool
    epsilon_paper: float
    epsilon_round: float


@dataclass(frozen=True)
class RoundAudit:
    """The result of an audit of single rounds. Claimed and accounted figures are the largest over the rounds.

    Attributes:
        epsilon_paper: Epsilon that the scheme's paper claims; nan without a claim.
        epsilon_round: Upper bound on epsilon of the round.
        epsilon_lower: Lower bound without assumptions, by the canary that every mask shows.
        epsilon_lower_gaussian: Lower bound for Gaussian noise, by the canary in one coordinate; nan where the noise is
            not Gaussian.
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


@dataclass(frozen=True)
class Attack:
    """A round that is run several times, with canaries of different amplitudes in one device.

    Attributes:
        world: The world that is audited.
        state: The state before the round.
        device: The device of the canary.
        others: Norm of what each other device sends along the canary, None for their updates.
    """

    world: World
    state: State
    device: int
    others: float | None

    def single(self, amplitude: float) -> Exchange:
        """Run the round with the canary in one coordinate."""
        masked = self.world.scenario.bound.seen < 1
        hook = canary_hook(np.array([self.device]), np.array([amplitude]), masked, self.others)
        return exchange(self.world, self.state, hook)

    def spread(self, amplitude: float) -> Exchange:
        """Run the round with the canary on all coordinates."""
        return exchange(self.world, self.state, spread_hook(self.device, amplitude, self.others))

    def known(self, exchanged: Exchange, mu: float) -> float:
        """Return what opposed devices send, over the noise, which the observer knows and subtracts.

        mu: The canary's contribution over the noise.
        """
        return received_devices(exchanged) * mu if self.others and math.isfinite(mu) else 0.0


def run_trial(world: World, options: Options, parameters: Tensor, index: int) -> Trial:
    """Run a round with the selection, fading, mask and noise of round `index`, with and without a canary in the device
    of largest weight."""
    scenario, norm, absent = world.scenario, canary_norm(world), absent_value(world, options)
    attack = Attack(
        world,
        State(index, parameters, scenario.memory),
        device=int(np.argmax(scenario.weights)),
        others=-norm if options.others == "opposed" else None,
    )
    without = attack.single(absent)
    # Past the end of the run, as the ledger would compose all rounds after the run's last one.
    privacy = account(world, without, scenario.run.rounds + 1 + index, compose=False)
    claim = scenario.recipe.claim
    if claim and claim.scope == "run":
        privacy["epsilon_paper"] = claim.epsilon(without.reception.report, scenario.run.rounds)
    mu, took_part = canary_mu(world, without, privacy), bool(np.isin(attack.device, without.plan.devices))
    single = _single(attack, without, norm, mu, took_part)
    spread = _spread(attack, without, norm, absent, mu, took_part) if scenario.bound.seen < 1 else single
    return Trial(single, spread, took_part, float(privacy["epsilon_paper"]), float(privacy["epsilon_round"]))


def _single(attack: Attack, without: Exchange, norm: float, mu: float, took_part: bool) -> Seen:
    """Return what is seen of the canary in one coordinate."""

    def observed(exchanged: Exchange) -> float:
        return float(observe(attack.world, exchanged, 1)[0]) + attack.known(exchanged, mu)

    shown, nothing = bool(are_shown(attack.world, without, 1)[0]), observed(without)
    # A canary that is not sent has no effect, so the round is not run again.
    planted = observed(attack.single(norm)) if took_part and shown else nothing
    return Seen(planted, nothing, mu * (2 if attack.others else 1), shown)


def _spread(attack: Attack, without: Exchange, norm: float, absent: float, mu: float, took_part: bool) -> Seen:
    """Return what is seen of the canary with equal entries."""
    empty = without if absent == 0 and attack.others is None else attack.spread(absent)
    nothing, part = observe_spread(attack.world, empty)
    planted = observe_spread(attack.world, attack.spread(norm))[0] if took_part else nothing
    known = attack.known(empty, mu * part)
    return Seen(planted + known, nothing + known, mu * part * (2 if attack.others else 1))


def evaluate(trials: Sequence[Trial], rules: Rules, delta: float, confidence: float) -> RoundAudit:
    """Return the bounds of these trials. Raises UserError where the observer knows who takes part and the canary's
    device took part too rarely."""
    counted = [trial for trial in trials if trial.took_part or not rules.known]
    if len(counted) < FEWEST_TRIALS:
        raise UserError(
            f"--trials: the canary's device was selected in {len(counted)} of {len(trials)} rounds, but selection by "
            f"the channel needs at least {FEWEST_TRIALS}; give more trials"
        )
    present, absent = scores([trial.spread for trial in counted], rules)
    shown = [trial for trial in counted if trial.single.shown]
    return RoundAudit(
        epsilon_paper=_largest([trial.epsilon_paper for trial in trials]),
        epsilon_round=_largest([trial.epsilon_round for trial in trials]),
        epsilon_lower=one_round_epsilon(present, absent, delta, confidence),
        epsilon_lower_gaussian=gaussian_bound(
            noise_of([trial.single for trial in shown], rules),
            np.array([trial.single.with_canary - trial.single.without for trial in shown if trial.took_part]),
            rules,
            delta,
            confidence,
        ),
    )


def noise_of(seen: Sequence[Seen], rules: Rules) -> Array:
    """Return the noise of every trial, which is seen where there is no canary."""
    without = np.array([one.without for one in seen])
    return (np.array([one.with_canary for one in seen]) + without) / 2 if rules.mirrored else without


def scores(seen: Sequence[Seen], rules: Rules) -> tuple[Array, Array]:
    """Return the log-likelihood ratios of all trials with and without the canary, [n] each; the first trials, which are
    not judged, determine the centre of the noise."""
    noise, mu = noise_of(seen, rules), np.array([one.mu for one in seen])
    centre = float(np.median(noise[: threshold_trials(len(noise))]))
    with_canary, without = (np.array([getattr(one, name) for one in seen]) for name in ("with_canary", "without"))
    return log_likelihood_ratio(with_canary - centre, mu, rules), log_likelihood_ratio(without - centre, mu, rules)


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
