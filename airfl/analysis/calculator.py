"""The privacy of a whole run without training: the claimed epsilon, the true one, and changes that meet a target.

It simulates the radio of a run with the same seed, round by round, as a link budget does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.analysis.budget import planned_rounds, scenario_of
from airfl.config import Config, Overrides, Settings, load_settings
from airfl.config.arguments import public
from airfl.config.given import changes_of, task_of
from airfl.core.accounting import build_ledger, noise_multiplier, release_event, worst_round_epsilon
from airfl.core.scenario import Scenario
from airfl.privacy.accountants import Accountant, account
from airfl.privacy.accountants.accountant import NamedAccount
from airfl.privacy.accountants.bins import on_lattice
from airfl.privacy.accountants.loss_distributions import Attained
from airfl.privacy.bounds import bounds
from airfl.privacy.calibration import Remedies, remedies
from airfl.privacy.disclosure import Disclosure
from airfl.privacy.events import Adjacency, Composed, Event, as_poisson, composed, has_binomial, scaled
from airfl.privacy.observer import ObserverView
from airfl.privacy.statement import Statement
from airfl.privacy.verdict import broken_claim
from airfl.runtime.numbers import figure
from airfl.runtime.text import brief
from airfl.schemes.calibrated import participations_of
from airfl.uplinks.radio.visibility import combined_robustly

if TYPE_CHECKING:
    from airfl.learning.own_task import Task

Array = NDArray[np.float64]
# Number of rounds at which the curves are computed, and the share by which their noise is rounded.
POINTS = 40
LATTICE_OF_CURVES = 0.02
# Relative tolerance above the target epsilon.
MET = 5e-3


@dataclass(frozen=True)
class FiguresOverRounds:
    """Privacy figures as functions of the number of rounds.

    Attributes:
        rounds: Numbers of rounds, int64 [points].
        figures: Name -> figure after so many rounds, float64 [points]; a claim for single rounds is the largest so far;
            nan where there is no figure.
    """

    rounds: NDArray[np.int64]
    figures: dict[str, Array]


@dataclass(frozen=True)
class RunPrivacy:
    """The privacy figures of a run; nan for a figure that does not exist.

    Attributes:
        scheme: Name of the scheme.
        seed: run.seed.
        rounds: T, rounds of the run.
        selected: r, devices per round.
        devices: N, the population.
        statement: Whose data is protected, from whom, and by which sampling.
        csi_error: How contributions that arrive stronger than beta count, as privacy.csi_error.
        beta_tells: What beta reveals about the selected devices, see `airfl.privacy.statement.BetaTells`.
        accountant: Name of the accountant that computed `epsilon`.
        noise_multiplier_min: Smallest noise multiplier (noise over sensitivity) of a round.
        noise_multiplier_median: Median noise multiplier over rounds.
        claim_scope: What epsilon_paper refers to: a "round", the "run", or "none".
        epsilon_paper: Claimed by the paper, the largest of a round, or of the run.
        epsilon_paper_tables: The figure of the paper's tables, where they use another formula.
        epsilon_round: Of the worst round, a proven upper bound, which is exact without a random mask.
        epsilon_round_at_least: A proven lower bound on it, nan if no pair of neighbours is known that attains one.
        epsilon: Of the run, a proven upper bound.
        epsilon_lower: A proven lower bound on epsilon for these noise multipliers.
        epsilon_as_poisson: Of the run by the literature's convention, Poisson sampling and add/remove.
        epsilon_rdp: Of the run by Renyi divergences, a looser upper bound.
        epsilon_at_least: epsilon_lower where a pair of neighbours is known that attains it.
        wanted: privacy.epsilon, the target.
        remedies: Changes that let the run end at `wanted` if beta reveals nothing; None where no change does, or
            without a target.
        alignment_coefficient: The largest beta with which the run ends at `wanted`, nan where there is none, and for
            antennas that are combined robustly.
        released: What the rounds release.
    """

    scheme: str
    seed: int
    rounds: int
    selected: int
    devices: int
    statement: Statement
    csi_error: str
    beta_tells: str
    accountant: str
    noise_multiplier_min: float
    noise_multiplier_median: float
    claim_scope: str
    epsilon_paper: float
    epsilon_paper_tables: float
    epsilon_round: float
    epsilon_round_at_least: float
    epsilon: float
    epsilon_lower: float
    epsilon_as_poisson: float
    epsilon_rdp: float
    epsilon_at_least: float
    wanted: float
    remedies: Remedies | None
    alignment_coefficient: float
    released: ReleasedRounds = field(repr=False)

    def __repr__(self) -> str:
        keys = ("scheme", "rounds", "epsilon_paper", "epsilon_round", "epsilon_at_least", "epsilon", "delta")
        return brief(self, **{key: getattr(self, key) for key in keys})

    @property
    def delta(self) -> float:
        """delta of the statement."""
        return self.statement.delta

    @property
    def level(self) -> str:
        """Whose data is protected."""
        return self.statement.level

    @property
    def adjacency(self) -> str:
        """The relation that `epsilon` is for."""
        return self.statement.adjacency

    def verdict(self) -> str | None:
        """Return one sentence with the true figures where the claim does not hold or is not proven, else None."""
        return broken_claim(self)

    def figures(self) -> dict[str, Any]:
        """Return the figures that `airfl privacy --json` prints."""
        plain = {name: value for name, value in vars(self).items() if name not in ("statement", "remedies", "released")}
        statement = self.statement
        return {
            **plain,
            "delta": statement.delta,
            "level": statement.level,
            "adjacency": statement.adjacency,
            "sampling": statement.sampling,
            "observer": statement.observer,
            "remedies": None if self.remedies is None else vars(self.remedies),
        }


@dataclass(frozen=True)
class ReleasedRounds:
    """What the rounds of a run release.

    Attributes:
        events: What each round releases about a participant, [T].
        devices: The selected devices of each round, [T] of int64 [r].
        claimed: Epsilon by the paper after each round, float64 [T].
        multipliers: Noise multiplier of each round, float64 [T].
        disclosures: What beta reveals about the selection of each round, [T].
    """

    events: tuple[Event, ...]
    devices: tuple[NDArray[np.int64], ...]
    claimed: Array
    multipliers: Array
    disclosures: tuple[Disclosure | None, ...]


@public
def privacy_of(
    config: Config, data_dir: str | Path | None = None, task: Task | None = None, *, overrides: Overrides = ()
) -> RunPrivacy:
    """Compute the claimed and the accounted privacy figures of a run without running it.

    `airfl.privacy` is this function.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables: see
            `airfl.load_settings`.
        data_dir: Where to look for data sets first, as in `run`; data is only read where it is needed.
        task: As in `run`.
        overrides: As in `airfl.load_settings`.

    Raises UserError for invalid settings, and where the scheme cannot be built from them.
    """
    settings = load_settings(config, overrides)
    scenario = scenario_of(settings, data_dir, task_of(config, task, changes_of(overrides)))
    claim = scenario.recipe.claim
    ledger = build_ledger(scenario)
    statement, rounds = ledger.statement, rounds_of(scenario)
    least = float(rounds.multipliers.min())
    worst = release_event(scenario, least)
    view = observed(statement, rounds)
    released = view.new_releases()
    whole = [*([released] if view.sums else []), *([view.listed()] if view.lists else [])]  # each is a bound
    delta, binomial = statement.delta_of_noise, has_binomial(worst)
    discloses = any(disclosure is not None for disclosure in rounds.disclosures)
    of_round, of_round_at_least = worst_round_epsilon(
        scenario,
        ledger,
        zip(rounds.multipliers.tolist(), rounds.disclosures, strict=True),
        np.unique(np.concatenate(rounds.devices)),
    )
    # The lower bound is that of single devices, where it is not that of them all.
    alone = discloses or bool(statement.of_devices) or view.lists
    tight = [bounds(one, statement.adjacency, delta, statement.accountant, lower=not alone) for one in whole]
    lower = view.at_least(released, delta) if alone and not binomial else tight[0].lower
    upper, as_poisson, by_rdp = min(one.upper for one in tight), math.nan, math.nan
    if not binomial:
        as_poisson = bounds(released_as_poisson(statement, rounds), "add_remove", delta, lower=False).upper
        by_rdp = min(bounds(one, statement.adjacency, delta, "rdp", lower=False).upper for one in whole)
    for worse in statement.of_all(whole[0])[1:]:
        upper = max(upper, bounds(worse, statement.adjacency, delta, statement.accountant, lower=False).upper)
        as_poisson = max(
            as_poisson, bounds(statement.of_round_as_poisson(worse), "add_remove", delta, lower=False).upper
        )
        by_rdp = max(by_rdp, bounds(worse, statement.adjacency, delta, "rdp", lower=False).upper)
    return RunPrivacy(
        scheme=settings.scheme.name,
        seed=settings.run.seed,
        rounds=settings.run.rounds,
        selected=settings.run.selected,
        devices=settings.run.devices,
        statement=statement,
        csi_error=settings.privacy.csi_error,
        beta_tells=scenario.beta_tells,
        accountant=ledger.accountant,
        noise_multiplier_min=least,
        noise_multiplier_median=float(np.median(rounds.multipliers)),
        claim_scope=claim.scope if claim else "none",
        epsilon_paper=float(rounds.claimed.max()),
        epsilon_paper_tables=claim.in_tables(settings.run.rounds) if claim and claim.in_tables else math.nan,
        epsilon_round=of_round,
        epsilon_round_at_least=of_round_at_least,
        epsilon=upper,
        epsilon_lower=lower,
        epsilon_as_poisson=as_poisson,
        epsilon_rdp=by_rdp,
        epsilon_at_least=lower if statement.attained else math.nan,
        wanted=settings.privacy.epsilon,
        **_for_target(scenario, settings, least),
        released=rounds,
    )


def unmet(settings: Settings, epsilon: float, data_dir: str | Path | None = None) -> str | None:
    """Return a warning for a run with privacy.bound = "accountant" that ended above the target privacy.epsilon at
    `epsilon`, with changes that would meet the target; None where it is met."""
    target = settings.privacy.epsilon
    if settings.privacy.bound != "accountant" or math.isnan(epsilon) or epsilon <= target * (1 + MET):
        return None
    privacy = privacy_of(settings, data_dir)
    start = (
        f"{privacy.scheme}, seed {privacy.seed}: the run ends at epsilon {figure(epsilon)}, above the target of "
        f"{target:g}"
    )
    if privacy.remedies is None and privacy.noise_multiplier_min > 0:
        return f"{start}; the accountant cannot tell how much noise this scheme needs: increase it"
    if privacy.remedies is None:
        return f"{start}; the run has no noise, and no N, r, T or power meets the target: use a scheme with noise"
    return f"{start}; changes that meet it: {privacy.remedies.in_words(not math.isnan(privacy.alignment_coefficient))}"


def rounds_of(scenario: Scenario) -> ReleasedRounds:
    """Return what the rounds of a run release, with all updates at their norm bound and without training."""
    claim = scenario.recipe.claim
    events, devices, claimed, multipliers, disclosures = [], [], [], [], []
    for index, plan in enumerate(planned_rounds(scenario)):
        report = plan.link.link_budget()
        multipliers.append(noise_multiplier(scenario, report))
        events.append(release_event(scenario, multipliers[-1]))
        devices.append(plan.devices)
        disclosures.append(plan.disclosure)
        claimed.append(claim.epsilon(report, index + 1) if claim else math.nan)
    return ReleasedRounds(tuple(events), tuple(devices), np.array(claimed), np.array(multipliers), tuple(disclosures))


def observed(statement: Statement, rounds: ReleasedRounds) -> ObserverView:
    """Return the observer's view of all rounds."""
    view = ObserverView(statement)
    for event, devices, disclosure in zip(rounds.events, rounds.devices, rounds.disclosures, strict=True):
        view.enter(event, devices, disclosure)
    return view


def released_as_poisson(statement: Statement, rounds: ReleasedRounds) -> Event:
    """Return what all rounds release by the literature's convention of Poisson sampling."""
    if statement.level == "client":
        return composed(map(statement.of_round_as_poisson, rounds.events))
    view = observed(statement, rounds)
    released = view.new_releases()
    return statement.of_round_as_poisson(view.listed() if view.lists else released)


def curves(privacy: RunPrivacy) -> FiguresOverRounds:
    """Return the figures as functions of the number of rounds, at geometrically spaced points."""
    statement, rounds = privacy.statement, privacy.released
    at = np.unique(np.geomspace(1, len(rounds.events), POINTS).round().astype(np.int64))
    figures = {
        "epsilon_paper": np.fmax.accumulate(rounds.claimed)[at - 1],
        "epsilon": _curve(statement, rounds, at, statement.accountant, statement.adjacency),
    }
    if any(map(has_binomial, rounds.events)):
        return FiguresOverRounds(at, figures)
    figures["epsilon_rdp"] = _curve(statement, rounds, at, "rdp", statement.adjacency)
    figures["epsilon_as_poisson"] = _curve_as_poisson(statement, rounds, at)
    if statement.adjacency == "replace_one" and statement.attained:
        figures["epsilon_at_least"] = _curve_at_least(statement, rounds, at)
    return FiguresOverRounds(at, figures)


def _curve(
    statement: Statement,
    rounds: ReleasedRounds,
    at: NDArray[np.int64],
    accountant: str | Accountant | None,
    adjacency: Adjacency,
    change: Callable[[Event], Event] = lambda event: event,
) -> Array:
    """Return epsilon after each number of rounds, by the accountant or, for None, a lower bound."""

    def opened() -> Sequence[Attained | NamedAccount]:
        if accountant is None:
            return [Attained(adjacency)]
        return [account(accountant, adjacency) for _ in (None, *statement.worse)]

    def entered(accounts: Sequence[Attained | NamedAccount], event: Event) -> float:
        for one, released in zip(accounts, statement.of_all(event), strict=False):
            one.compose(change(released))
        return max(one.epsilon(statement.delta_of_noise) for one in accounts)

    running, values = opened(), []
    for new, view in _increments(statement, rounds, at, upwards=accountant is None):
        summed = entered(running, new) if view.sums else math.inf
        values.append(min(summed, entered(opened(), view.listed())) if view.lists else summed)
    return np.maximum.accumulate(np.array(values))


def _increments(
    statement: Statement, rounds: ReleasedRounds, at: NDArray[np.int64], upwards: bool = False
) -> Iterator[tuple[Event, ObserverView]]:
    """Yield, for each point, what was released since the previous one, and the observer's view so far. upwards: round
    noise up, for a lower bound."""
    view, start = ObserverView(statement), 0
    for end in at.tolist():
        for index in range(start, end):
            view.enter(rounds.events[index], rounds.devices[index], rounds.disclosures[index])
        new: Event = view.new_releases()
        yield on_lattice([new], LATTICE_OF_CURVES, upwards=upwards) if statement.hidden else new, view
        start = end


def _curve_as_poisson(statement: Statement, rounds: ReleasedRounds, at: NDArray[np.int64]) -> Array:
    """Return the curve by the convention that devices are hidden from every observer, and records by mini-batches."""
    if statement.level == "record":
        return _curve(statement, rounds, at, "auto", "add_remove", as_poisson)
    poisson = replace(statement, sampling="poisson", observer="third_party", granted=False)
    return _curve(poisson, replace(rounds, disclosures=(None,) * len(rounds.events)), at, "auto", "add_remove")


def _curve_at_least(statement: Statement, rounds: ReleasedRounds, at: NDArray[np.int64]) -> Array:
    """Return the curve of the lower bound; where beta reveals devices, that of single devices."""
    alone = statement.of_devices or observed(statement, rounds).lists
    if all(disclosure is None for disclosure in rounds.disclosures) and not alone:
        return _curve(statement, rounds, at, None, statement.adjacency)
    so_far: list[tuple[Event, int]] = []
    values = []
    for new, view in _increments(statement, rounds, at, upwards=True):
        so_far.append((new, 1))
        values.append(view.at_least(Composed(tuple(so_far)), statement.delta_of_noise))
    return np.fmax.accumulate(np.array(values))


def _for_target(scenario: Scenario, settings: Settings, multiplier: float) -> dict[str, Any]:
    """Return remedies and alignment_coefficient of `RunPrivacy`: None and nan without a target or without noise."""
    statement, event = scenario.statement, release_event(scenario, multiplier)
    if math.isinf(settings.privacy.epsilon) or not 0 < multiplier < math.inf or has_binomial(event):
        return {"remedies": None, "alignment_coefficient": math.nan}
    needed = remedies(
        statement,
        settings.privacy.epsilon,
        settings.run.rounds,
        participations_of(settings.selection, settings.run, statement),
        multiplier,
        event_of=lambda needed: tuple(scaled(one, needed / multiplier) for one in statement.of_all(event)),
    )
    beta = math.nan
    # On antennas that are combined robustly, the amplitude of what is released is not beta.
    robust = combined_robustly(settings.radio)
    of_clients = statement.level == "client"  # records are protected by the noise of their device
    if scenario.link == "analog" and of_clients and needed.noise_multiplier and not robust:
        largest = scenario.bound.sensitivity * float(scenario.weights.max())
        beta = scenario.radio.noise_std / (needed.noise_multiplier * largest)
    return {"remedies": needed, "alignment_coefficient": beta}
