"""The privacy of a whole run without any training: what is claimed of it, what holds, what would do.

It is the radio side of a run with the same seed, round for round, as in a link budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.budget import cell_of, opened_rounds
from airfl.cell import Cell, build_ledger, noise_multiplier, release_event, worst_round_epsilon
from airfl.config import Config, Overrides, Settings, load_settings
from airfl.config.arguments import public
from airfl.config.given import changes_of, task_of
from airfl.privacy.accountants import Accountant, account
from airfl.privacy.accountants.bins import on_lattice
from airfl.privacy.accountants.loss_distributions import Attained
from airfl.privacy.bounds import bounds
from airfl.privacy.calibration import WouldDo, what_would_do
from airfl.privacy.events import Adjacency, Composed, Event, as_poisson, composed, has_binomial, scaled
from airfl.privacy.ledger import View
from airfl.privacy.statement import Statement
from airfl.report.numbers import figure
from airfl.report.verdict import broken_claim
from airfl.schemes.calibrated import participations_of
from airfl.shown import brief
from airfl.uplinks.disclosure import Disclosure

if TYPE_CHECKING:
    from airfl.tasks.own import Task

Array = NDArray[np.float64]
# Rounds of a run at which the curves of a figure are computed, and the share that their noise is rounded by.
POINTS = 40
LATTICE_OF_CURVES = 0.02
# A run has ended where it was to if it is above by no more than this share.
MET = 5e-3


@dataclass(frozen=True)
class Curves:
    """Figures against rounds.

    Attributes:
        rounds: After how many, int64 [points].
        figures: Name -> figure after so many rounds, float64 [points]; claimed of rounds: the largest so far; nan where
            there is none.
    """

    rounds: NDArray[np.int64]
    figures: dict[str, Array]


@dataclass(frozen=True)
class RunPrivacy:
    """The figures of a run side by side; nan for what does not exist.

    Attributes:
        scheme: Its name.
        seed: run.seed.
        rounds: T, of the run.
        selected: r, devices a round.
        devices: N, the population.
        statement: Whose data is protected, from whom, by what.
        csi_error: How contributions that arrive stronger than beta count, as privacy.csi_error.
        beta_tells: What beta tells of who was selected, see `airfl.uplinks.disclosure.BetaTells`.
        accountant: By which `epsilon` was computed.
        noise_multiplier_min: Noise over sensitivity, of the round with least.
        noise_multiplier_median: The same over rounds.
        claim_scope: What epsilon_paper is of: a "round", the "run", or "none".
        epsilon_paper: Claimed by the paper, the largest of a round, or of the run.
        epsilon_paper_tables: What the paper's tables print, where that is by another formula.
        epsilon_round: Exact, of the worst round.
        epsilon: Of the run, a proven upper bound.
        epsilon_lower: A proven lower bound on the epsilon of these noise multipliers.
        epsilon_as_poisson: Of the run by the literature's convention, Poisson sampling and add/remove.
        epsilon_rdp: Of the run by Renyi divergences, a looser upper bound.
        epsilon_at_least: epsilon_lower where a pair of neighbours is known that really pays it.
        wanted: privacy.epsilon.
        would_do: What would end the run at `wanted` with a beta that tells nothing; None where nothing would, or
            nothing is asked.
        alignment_coefficient: The largest beta that would, nan where there is none.
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
    epsilon: float
    epsilon_lower: float
    epsilon_as_poisson: float
    epsilon_rdp: float
    epsilon_at_least: float
    wanted: float
    would_do: WouldDo | None
    alignment_coefficient: float
    released: Rounds = field(repr=False)

    def __repr__(self) -> str:
        keys = ("scheme", "rounds", "epsilon_paper", "epsilon_round", "epsilon_at_least", "epsilon", "delta")
        return brief(self, **{key: getattr(self, key) for key in keys})

    @property
    def delta(self) -> float:
        """Of the statement."""
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
        """One sentence with the true figures, where the claim does not hold or is not proven."""
        return broken_claim(self)

    def figures(self) -> dict[str, Any]:
        """What `airfl privacy --json` prints."""
        plain = {name: value for name, value in vars(self).items() if name not in ("statement", "would_do", "released")}
        about = self.statement
        return {
            **plain,
            "delta": about.delta,
            "level": about.level,
            "adjacency": about.adjacency,
            "sampling": about.sampling,
            "observer": about.observer,
            "would_do": None if self.would_do is None else vars(self.would_do),
        }


@dataclass(frozen=True)
class Rounds:
    """What the rounds of a run release.

    Attributes:
        events: Of a device in each round, [T].
        devices: Who was in each round, [T] of int64 [r].
        claimed: By the paper after each round, float64 [T].
        multipliers: Noise over sensitivity of each round, float64 [T].
        told: What beta told of who was in each round, [T].
    """

    events: tuple[Event, ...]
    devices: tuple[NDArray[np.int64], ...]
    claimed: Array
    multipliers: Array
    told: tuple[Disclosure | None, ...]


@public
def privacy_of(
    config: Config, data_dir: str | Path | None = None, task: Task | None = None, *, overrides: Overrides = ()
) -> RunPrivacy:
    """What is claimed of a run's privacy and what holds, without running it; `airfl.privacy` is this function.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables: see
            `airfl.load_settings`.
        data_dir: Where data sets are looked for first, as in `run`; read where it is needed alone.
        task: As in `run`.
        overrides: As in `airfl.load_settings`.

    Raises UserError for what cannot be used, and where the scheme cannot be built from the settings.
    """
    settings = load_settings(config, overrides)
    cell = cell_of(settings, data_dir, task_of(config, task, changes_of(overrides)))
    claim = cell.recipe.claim
    ledger = build_ledger(cell)
    statement, rounds = ledger.statement, rounds_of(cell)
    least = float(rounds.multipliers.min())
    worst = release_event(cell, least)
    view = viewed(statement, rounds)
    own = view.new_releases()
    delta, binomial = statement.delta_of_noise, has_binomial(worst)
    discloses = any(told is not None for told in rounds.told)
    found = bounds(own, statement.adjacency, delta, statement.accountant, lower=not discloses)
    lower = view.at_least(own, delta) if discloses and not binomial else found.lower
    as_poisson, by_rdp = math.nan, math.nan
    if not binomial:
        as_poisson = bounds(conventional(statement, rounds), "add_remove", delta, lower=False).upper
        by_rdp = bounds(own, statement.adjacency, delta, "rdp", lower=False).upper
    return RunPrivacy(
        scheme=settings.scheme.name,
        seed=settings.run.seed,
        rounds=settings.run.rounds,
        selected=settings.run.selected,
        devices=settings.run.devices,
        statement=statement,
        csi_error=settings.privacy.csi_error,
        beta_tells=cell.beta_tells,
        accountant=ledger.accountant,
        noise_multiplier_min=least,
        noise_multiplier_median=float(np.median(rounds.multipliers)),
        claim_scope=claim.scope if claim else "none",
        epsilon_paper=float(rounds.claimed.max()),
        epsilon_paper_tables=claim.in_tables(settings.run.rounds) if claim and claim.in_tables else math.nan,
        epsilon_round=worst_round_epsilon(cell, ledger, zip(rounds.multipliers.tolist(), rounds.told, strict=True)),
        epsilon=found.upper,
        epsilon_lower=lower,
        epsilon_as_poisson=as_poisson,
        epsilon_rdp=by_rdp,
        epsilon_at_least=lower if statement.attained else math.nan,
        wanted=settings.privacy.epsilon,
        **_answers(cell, settings, least),
        released=rounds,
    )


def unmet(settings: Settings, epsilon: float, data_dir: str | Path | None = None) -> str | None:
    """What to say of a run that was to end at privacy.epsilon, by privacy.bound = "accountant", and ended at `epsilon`:
    one sentence with what would have done, None where it was met."""
    wanted = settings.privacy.epsilon
    if settings.privacy.bound != "accountant" or math.isnan(epsilon) or epsilon <= wanted * (1 + MET):
        return None
    found = privacy_of(settings, data_dir)
    start = (
        f"{found.scheme}, seed {found.seed}: epsilon {wanted:g} was asked of the run, which ends at {figure(epsilon)}"
    )
    if found.would_do is None and found.noise_multiplier_min > 0:
        return f"{start}; how much of this scheme's noise would do is not known to the accountant: give it more"
    if found.would_do is None:
        return f"{start}; nothing protects it, and no N, r, T or power would do: take a scheme with noise"
    return f"{start}; what would do: {found.would_do.in_words(not math.isnan(found.alignment_coefficient))}"


def rounds_of(cell: Cell) -> Rounds:
    """All rounds with their updates at their bound, and no learning."""
    claim = cell.recipe.claim
    events, devices, claimed, multipliers, told = [], [], [], [], []
    for index, opening in enumerate(opened_rounds(cell)):
        report = opening.link.at_bound()
        multipliers.append(noise_multiplier(cell, report))
        events.append(release_event(cell, multipliers[-1]))
        devices.append(opening.devices)
        told.append(opening.disclosure)
        claimed.append(claim.epsilon(report, index + 1) if claim else math.nan)
    return Rounds(tuple(events), tuple(devices), np.array(claimed), np.array(multipliers), tuple(told))


def viewed(statement: Statement, rounds: Rounds) -> View:
    """All that the observer sees."""
    view = View(statement)
    for event, devices, told in zip(rounds.events, rounds.devices, rounds.told, strict=True):
        view.enter(event, devices, told)
    return view


def conventional(statement: Statement, rounds: Rounds) -> Event:
    """The same by the literature's convention."""
    if statement.level == "client":
        return composed(map(statement.of_round_as_poisson, rounds.events))
    return statement.of_round_as_poisson(viewed(statement, rounds).new_releases())


def curves(privacy: RunPrivacy) -> Curves:
    """The figures up to every so many-th round."""
    statement, rounds = privacy.statement, privacy.released
    at = np.unique(np.geomspace(1, len(rounds.events), POINTS).round().astype(np.int64))
    figures = {
        "epsilon_paper": np.fmax.accumulate(rounds.claimed)[at - 1],
        "epsilon": _curve(statement, rounds, at, statement.accountant, statement.adjacency),
    }
    if any(map(has_binomial, rounds.events)):
        return Curves(at, figures)
    figures["epsilon_rdp"] = _curve(statement, rounds, at, "rdp", statement.adjacency)
    figures["epsilon_as_poisson"] = _curve_as_poisson(statement, rounds, at)
    if statement.adjacency == "replace_one" and statement.attained:
        figures["epsilon_at_least"] = _curve_at_least(statement, rounds, at)
    return Curves(at, figures)


def _curve(
    statement: Statement,
    rounds: Rounds,
    at: NDArray[np.int64],
    accountant: str | Accountant | None,
    adjacency: Adjacency,
    change: Callable[[Event], Event] = lambda event: event,
) -> Array:
    """An accountant's figure after so many rounds of what the observer sees of the device that pays most; None for
    a lower bound."""
    going_on, values = Attained(adjacency) if accountant is None else account(accountant, adjacency), []
    for new, _ in _seen(statement, rounds, at, upwards=accountant is None):
        going_on.compose(change(new))
        values.append(going_on.epsilon(statement.delta_of_noise))
    return np.array(values)


def _seen(
    statement: Statement, rounds: Rounds, at: NDArray[np.int64], upwards: bool = False
) -> Iterator[tuple[Event, View]]:
    """What has come since the point before, and all that the observer has seen; upwards: for a lower bound."""
    view, start = View(statement), 0
    for end in at.tolist():
        for index in range(start, end):
            view.enter(rounds.events[index], rounds.devices[index], rounds.told[index])
        new: Event = view.new_releases()
        yield on_lattice([new], LATTICE_OF_CURVES, upwards=upwards) if statement.hidden else new, view
        start = end


def _curve_as_poisson(statement: Statement, rounds: Rounds, at: NDArray[np.int64]) -> Array:
    """By the convention a device is hidden from everybody, a record by its mini-batches."""
    if statement.level == "record":
        return _curve(statement, rounds, at, "auto", "add_remove", as_poisson)
    poisson = replace(statement, sampling="poisson", observer="third_party", granted=False)
    return _curve(poisson, replace(rounds, told=(None,) * len(rounds.events)), at, "auto", "add_remove")


def _curve_at_least(statement: Statement, rounds: Rounds, at: NDArray[np.int64]) -> Array:
    """A lower bound after so many rounds; where beta tells of the devices, of one of them as it was by then."""
    if all(told is None for told in rounds.told):
        return _curve(statement, rounds, at, None, statement.adjacency)
    so_far: list[tuple[Event, int]] = []
    values = []
    for new, view in _seen(statement, rounds, at, upwards=True):
        so_far.append((new, 1))
        values.append(view.at_least(Composed(tuple(so_far)), statement.delta_of_noise))
    return np.fmax.accumulate(np.array(values))


def _answers(cell: Cell, settings: Settings, multiplier: float) -> dict[str, Any]:
    """would_do and alignment_coefficient of `RunPrivacy`; nothing would where nothing is asked, or nothing protects."""
    statement, event = cell.statement, release_event(cell, multiplier)
    if math.isinf(settings.privacy.epsilon) or not 0 < multiplier < math.inf or has_binomial(event):
        return {"would_do": None, "alignment_coefficient": math.nan}
    would_do = what_would_do(
        statement,
        settings.privacy.epsilon,
        settings.run.rounds,
        participations_of(settings.selection, settings.run, statement),
        multiplier,
        event_of=lambda wanted: scaled(event, wanted / multiplier),
    )
    beta = math.nan
    if cell.link == "analog" and would_do.noise_multiplier:
        largest = cell.bound.sensitivity * float(cell.weights.max())
        beta = cell.radio.noise_std / (would_do.noise_multiplier * largest)
    return {"would_do": would_do, "alignment_coefficient": beta}
