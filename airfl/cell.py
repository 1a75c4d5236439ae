"""The radio side of a run: who takes part in a round, over which channel, with which link. No data, no model, no torch.

A round of learning starts from it; a link budget is made of it alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from airfl.choice import check_energy_budget, choose, rates, round_costs
from airfl.config import Settings
from airfl.downlink import broadcast
from airfl.errors import AlignmentError, UserError
from airfl.privacy.accountants import accountant_of_settings
from airfl.privacy.events import Event
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.release import ClientRelease
from airfl.privacy.statement import BetaTells, Statement, statement_of
from airfl.radio import Radio, build_radio, check_radio, check_size
from airfl.schemes import fitted, link_of, scheme
from airfl.schemes.recipe import LinkKind, Problem, Recipe
from airfl.selection import SELECTIONS, Ids, Memory
from airfl.stages import ErrorFeedback, MessageBound, bound_after
from airfl.streams import Streams
from airfl.uplinks import AnalogUplink, Link, LinkReport, Terms
from airfl.uplinks.disclosure import Disclosure
from channels.broadcast import Broadcast
from channels.csi import ChannelEstimate, ChannelState, Knowledge
from channels.frame import Frame
from channels.selective import SELECTIVE_MODELS

if TYPE_CHECKING:
    from torch import device

Array = NDArray[np.float64]

# Factors on the devices' own noise: up to which one is looked for, and how exactly.
MOST_OWN_NOISE, OWN_NOISE_ACCURACY = 64.0, 1e-9
# Standard deviation on an entry that single precision carries.
LARGEST_NOISE = 1e20
# Rounds by which ways of settling beta are compared.
ROUNDS_TO_COMPARE = 8
# By how much the next way, which takes more knowledge of the channels, has to be better.
WORTH_IT = 1.1
# Of the population's channels, coefficients up to which they are computed in every round to tell what beta discloses;
# beyond, the observer is granted who was selected.
MOST_COEFFICIENTS = 200_000
# Of the formulas: below them they have no digits left.
SMALLEST_EPSILON, SMALLEST_DELTA = 1e-10, 1e-100


@dataclass(frozen=True)
class Cell:
    """Population, radio and scheme, as they hold for all rounds.

    dimension: d; link: what carries the messages; bound: on one message; frame: its resource elements; power_limits:
    P_i over the radio's energy unit, [N]; weights: of the mean, [N]; samples: of the device that has fewest; statement:
    what its privacy figures are for.
    """

    settings: Settings
    streams: Streams
    radio: Radio
    dimension: int
    link: LinkKind
    recipe: Recipe
    bound: MessageBound
    frame: Frame
    power_limits: Array
    weights: Array
    samples: int
    statement: Statement

    @cached_property
    def everybody_sets_beta(self) -> bool:
        """Whether beta follows from all N devices, selected or not."""
        uplink = self.recipe.uplink
        return isinstance(uplink, AnalogUplink) and uplink.control.alignment == "population"

    @cached_property
    def beta_tells(self) -> BetaTells:
        """What the privacy figures say of a beta that follows from who was selected, see `BetaTells`."""
        uplink, statement = self.recipe.uplink, self.statement
        if statement.sampled and (statement.granted or statement.remembered):
            return "granted"
        flat = self.radio.observed_shape(self.frame) == (1, 1)
        if not isinstance(uplink, AnalogUplink) or not statement.sampled or not uplink.control.sample_sets_beta(flat):
            return "nothing"
        if statement.gains == "private":
            return "unknown"
        limits = self.power_limits * self.weights**-2.0
        tie = len(np.unique(limits)) < len(limits)  # gains at their bounds may then be equal
        one_by_one = uplink.control.one_by_one(self.settings.antennas.count, flat) and _population_fits(self)
        return "exact" if one_by_one and not tie else "granted"

    @cached_property
    def discloses(self) -> bool:
        """Whether beta tells the observer who was selected, and nothing else does."""
        return self.beta_tells in ("exact", "granted") and self.statement.hidden

    @property
    def memory(self) -> Memory:
        """What selection remembers before the first round."""
        return SELECTIONS[self.settings.selection.kind].memory(self.settings.run.devices)

    # Of the whole population, so computed once: a round costs what its own devices cost.

    @cached_property
    def entry_limits(self) -> Array:
        """P_i/d, the energy of an entry of a whole update, over the energy unit, [N]."""
        return self.power_limits / self.dimension

    @cached_property
    def element_power(self) -> Array:
        """The same of a resource element; in physical units the transmit power on it, [N]."""
        if not self.radio.physical:
            return self.entry_limits
        return self.power_limits / self.radio.grid.elements_for(self.dimension)

    @cached_property
    def largest_weight(self) -> float:
        """Of anybody's update in the mean."""
        return float(self.weights.max())

    @cached_property
    def most_energy(self) -> Array:
        """That a round may take of each device in expectation, [N]."""
        return round_costs(self)


@dataclass(frozen=True)
class Opening:
    """A round before anybody trains. devices: S^t, ids, [r]; knowledge: of their channels; link: open to them; memory:
    of selection, after this round; broadcast: what the downlink takes, None where it is ideal; own_noise: of the
    devices, over what their stages have by themselves; disclosure: what beta tells of who was selected, None where it
    follows from something else."""

    devices: Ids
    knowledge: Knowledge
    link: Link
    memory: Memory
    broadcast: Broadcast | None
    own_noise: float = 1.0
    disclosure: Disclosure | None = None

    @property
    def channel(self) -> ChannelState:
        """As it is."""
        return self.knowledge.state

    @property
    def estimate(self) -> ChannelEstimate:
        """As it is known."""
        return self.knowledge.estimate


def build_cell(settings: Settings, dimension: int, weights: Array, samples: int = 1) -> Cell:
    """The cell of these settings for a model of d = `dimension` parameters; weights: of the devices' updates, [N];
    samples: m, of the device that has fewest."""
    settings = fitted(settings)
    if settings.power.alignment == "auto":
        return _best_aligned(settings, dimension, weights, samples)
    check_radio(settings)
    if settings.delta < SMALLEST_DELTA:
        raise UserError(f"privacy.delta: at least {SMALLEST_DELTA:g} is wanted, not {settings.delta:g}; give more")
    if settings.privacy.epsilon < SMALLEST_EPSILON:
        given = settings.privacy.epsilon
        raise UserError(f"privacy.epsilon: at least {SMALLEST_EPSILON:g} is wanted, not {given:g}; give more")
    streams = Streams(settings.run.seed)
    link = link_of(settings)
    recipe = scheme(settings.scheme.name).build(Problem(settings, dimension, link, float(weights.max()), samples))
    bound = bound_after(recipe.stages, dimension)
    _check_recipe(settings, recipe, bound, link)
    radio = build_radio(settings, streams)
    # Orthogonal devices sit anywhere in the band, however short a message is.
    frame = radio.frame(bound.entries if link == "analog" else max(bound.entries, 2 * radio.grid.used_subcarriers))
    hears = SELECTIONS[settings.selection.kind].hears
    rows = (settings.selection.candidates or settings.run.devices) if hears else settings.run.selected
    if link == "analog" and settings.power.alignment == "population":
        rows = settings.run.devices
    check_size(settings, bound.entries, rows, frame.blocks)
    cell = Cell(
        settings=settings,
        streams=streams,
        radio=radio,
        dimension=dimension,
        link=link,
        recipe=recipe,
        bound=bound,
        frame=frame,
        power_limits=radio.power_limits(dimension),
        weights=weights,
        samples=samples,
        statement=_statement(settings, recipe, bound, link),
    )
    check_energy_budget(cell)
    return cell


def _best_aligned(settings: Settings, dimension: int, weights: Array, samples: int) -> Cell:
    """The cell with power.alignment = "auto" settled: by the selected devices, unless the account grants the observer
    who they were, so that the noise it asks for may be dearer than a beta that does not tell."""

    def aligned(alignment: str) -> Cell:
        return build_cell(settings.resolved(power={"alignment": alignment}), dimension, weights, samples)

    best = aligned("sample")
    if not (best.recipe.calibrated and best.statement.granted and best.statement.sampled and best.link == "analog"):
        return best
    for alignment in ("schedule", "population"):
        try:
            other = aligned(alignment)
        except AlignmentError:
            continue  # this scheme, policy or radio has no such beta
        if _signal_over_noise(other) > _signal_over_noise(best) + np.log(WORTH_IT):
            best = other
    return best


def _signal_over_noise(cell: Cell) -> float:
    """Of the decoded mean: the share of the selected devices that is heard over the noise on an entry, mean of the
    logarithm over rounds after the run's last one, whose samples tell nothing of those that are drawn in it. Replayed
    gains may end with the run: there its own first rounds are looked at."""
    rounds = cell.settings.run.rounds
    replayed = range(min(rounds, ROUNDS_TO_COMPARE))
    logs = []
    for index in replayed if cell.radio.replay else range(rounds, rounds + ROUNDS_TO_COMPARE):
        report = open_round(cell, index, cell.memory).link.at_bound()
        heard = float(report.devices.active.sum()) / cell.settings.run.selected
        noise = np.hypot(report.noise_std, cell.bound.noise_std * report.own_noise_gain)
        logs.append(np.log(heard / noise) if heard and noise else -np.inf)
    return float(np.mean(logs))


def open_round(cell: Cell, round_index: int, memory: Memory, device: device | str = "cpu") -> Opening:
    """Select, fade, estimate, open the uplink: all of round t that is known before training."""
    settings, radio = cell.settings, cell.radio
    devices, knowledge, candidates, rows = choose(cell, round_index, memory)
    divisor = len(devices) if SELECTIONS[settings.selection.kind].among else settings.run.selected
    weights = cell.weights[devices]
    if cell.everybody_sets_beta:
        candidates, rows = np.arange(settings.run.devices), devices  # all of them are estimated
    terms = Terms(
        knowledge=knowledge,
        frame=cell.frame,
        power_limits=cell.power_limits[devices],
        rms_norms=cell.bound.rms * weights,
        peak_norms=cell.bound.peak * weights,
        weights=weights,
        message=cell.bound,
        ids=devices,
        element_power=cell.element_power[devices],
        entries=cell.bound.entries,
        dimension=cell.dimension,
        divisor=float(divisor),
        fades=radio.fades,
        pilots=radio.pilots(knowledge.estimate.response.shape, candidates, rows, cell.entry_limits),
        energy_unit=radio.energy_unit,
        streams=cell.streams,
        round_index=round_index,
        device=device,
        record=settings.trace.records_signals(round_index),
        multipath=radio.multipath(round_index, devices, cell.frame),
    )
    if cell.everybody_sets_beta or (cell.discloses and _population_fits(cell)):
        terms = replace(terms, population=_everybody(cell, terms))
    link = cell.recipe.uplink.open(terms)
    if cell.recipe.noise_target is not None:
        terms = _filled(cell, terms, cell.recipe.noise_target)
        link = cell.recipe.uplink.open(terms)
    if memory.spent is not None or memory.mean_rate is not None:
        energy = link.at_bound().devices.energy
        memory = memory.after(devices, rates(cell, devices, knowledge), energy, settings.selection.window)
    downlink = None
    if settings.grid.downlink:
        downlink = broadcast(settings, radio, cell.dimension, knowledge, cell.bound.mask_bits)
    return Opening(devices, knowledge, link, memory, downlink, terms.own_noise, _disclosure(cell, terms))


def _population_fits(cell: Cell) -> bool:
    blocks, subcarriers = cell.radio.observed_shape(cell.frame)
    antennas = cell.settings.antennas.count
    return cell.settings.run.devices * antennas * blocks * subcarriers <= MOST_COEFFICIENTS


def _everybody(cell: Cell, terms: Terms) -> Terms | None:
    """The terms of all devices; where some channel is not finite None, or those of the others if they set beta."""
    everyone = np.arange(cell.settings.run.devices)
    knowledge = cell.radio.know(terms.round_index, everyone, cell.frame, cell.entry_limits)
    finite = knowledge.finite
    if not finite.all():
        if not cell.everybody_sets_beta:
            return None
        everyone, knowledge = everyone[finite], knowledge.take(np.flatnonzero(finite))
    weights = cell.weights[everyone]
    return replace(
        terms,
        knowledge=knowledge,
        power_limits=cell.power_limits[everyone],
        rms_norms=cell.bound.rms * weights,
        peak_norms=cell.bound.peak * weights,
        weights=weights,
        ids=everyone,
        element_power=cell.element_power[everyone],
        multipath=None,
        population=None,
    )


def _disclosure(cell: Cell, terms: Terms) -> Disclosure | None:
    """What beta tells of who was selected, None where it tells nothing that is accounted."""
    if not cell.discloses:
        return None
    assert isinstance(cell.recipe.uplink, AnalogUplink)
    return cell.recipe.uplink.control.disclosure(terms, poisson=cell.statement.sampling == "poisson")


def disclosure_again(cell: Cell, round_index: int) -> Disclosure | None:
    """What beta told in a round that is over. Only blind selection hides anybody, and it remembers nothing."""
    return open_round(cell, round_index, cell.memory).disclosure if cell.discloses else None


def _filled(cell: Cell, terms: Terms, target: float) -> Terms:
    """The terms with as much of the devices' noise as the round lacks of a noise multiplier of `target`.

    The channel's noise counts first. Over an analog link less noise of the devices' own is less power spent on it, so
    that an update arrives stronger over the receiver's noise: the factor at which both together are enough is solved
    for. The link has to be opened for every one that is tried, which draws nothing.
    """

    def excess(factor: float) -> float:
        report = cell.recipe.uplink.open(terms.with_own_noise(factor)).at_bound()
        return noise_multiplier(cell, report) / target - 1

    if excess(0.0) >= 0:
        return terms.with_own_noise(0.0)
    high = 1.0
    while excess(high) < 0:
        high *= 2
        if high > MOST_OWN_NOISE:
            return terms  # nobody is heard, or so few that no noise of theirs is enough: the ledger tells
    low = high / 2 if high > 1 else 0.0
    factor = brentq(excess, low, high, xtol=OWN_NOISE_ACCURACY)
    return terms.with_own_noise(float(factor) + OWN_NOISE_ACCURACY)


def noise_multiplier(cell: Cell, report: LinkReport) -> float:
    """Noise over the largest contribution of one device, or of one record, in what is released; 0 without noise or
    bound, inf where the channel left nobody to take part and nothing is released."""
    if SELECTIONS[cell.settings.selection.kind].among and not len(report.devices.energy):
        return float("inf")
    return cell.recipe.release.noise_multiplier(cell.bound, cell.largest_weight, report)


def paper_cost_mb(cell: Cell) -> float:
    """The papers' "Cost (MB)" of a device: values x bits x T r/N, in 10^6 bytes (Fed-SPA section 5.2, Fed-SMP section
    6.3). What names the coordinates is left out, as there; nan for an analog link."""
    if cell.link == "analog":
        return float("nan")
    run = cell.settings.run
    rounds = run.rounds * run.selected / run.devices
    return cell.bound.sent_values * cell.bound.value_bits * rounds / 8e6


def release_event(cell: Cell, multiplier: float) -> Event:
    """What a round with that noise multiplier released of a device that was in it."""
    return cell.recipe.release.event(multiplier)


def worst_round_epsilon(cell: Cell, ledger: PrivacyLedger, rounds: Iterable[tuple[float, Disclosure | None]]) -> float:
    """Tight epsilon of the round that costs most by itself, of (noise multiplier, what beta told)."""
    worst: dict[tuple[bool, int, int] | None, tuple[float, Disclosure | None]] = {}
    for multiplier, told in rounds:
        kind = None if told is None else (len(told.named) > 0, told.sample, told.pool)
        if kind not in worst or multiplier < worst[kind][0]:
            worst[kind] = multiplier, told
    return max(ledger.of_one_round(release_event(cell, least), told) for least, told in worst.values())


def build_ledger(cell: Cell) -> PrivacyLedger:
    """The ledger of a run of this cell; UserError where its accountant has no bound for what is released."""
    release = cell.recipe.release
    release.check(SELECTIONS[cell.settings.selection.kind].sampling)
    with accountant_of_settings():
        return PrivacyLedger(cell.statement, like=release.event(1.0))


def _statement(settings: Settings, recipe: Recipe, bound: MessageBound, link: LinkKind) -> Statement:
    memory = any(isinstance(stage, ErrorFeedback) for stage in recipe.stages)
    # Noise that is not Gaussian is the devices' own, too.
    own_noise = bound.noise_std > 0 or not isinstance(recipe.release, ClientRelease)
    statement = statement_of(settings, recipe.release.level, link, recipe.calibrated, memory, own_noise)
    bounded = link == "analog" and bound.noise_std > 0 and _own_noise_is_bounded(settings)
    # What memories tell of samples is an upper bound, too: no neighbours are known that pay for all of it.
    attained = recipe.release.attained and not bounded and not statement.remembered
    return replace(statement, attained=statement.attained and attained)


def _check_recipe(settings: Settings, recipe: Recipe, bound: MessageBound, link: LinkKind) -> None:
    if recipe.public_data and not settings.task.public_samples:
        raise UserError(
            f"task.public_samples: scheme {settings.scheme.name!r} chooses coordinates on public data; give how many "
            "training samples are public (given: 0)"
        )
    if bound.noise_std and SELECTIONS[settings.selection.kind].sampling == "poisson":
        raise UserError(
            f"selection.kind: devices of scheme {settings.scheme.name!r} bring the noise, so that its sum would tell "
            'how many a Poisson sample has; take "uniform"'
        )
    if bound.noise_std > LARGEST_NOISE:
        raise UserError(
            f"privacy.epsilon: the noise of scheme {settings.scheme.name!r} would have a standard deviation of "
            f"{bound.noise_std:.3g} on an entry, which single precision does not carry (at most {LARGEST_NOISE:g}); "
            "raise privacy.epsilon, or lower scheme.noise_multiplier or local.clip_norm"
        )
    if settings.run.non_finite == "clip" and not recipe.local.clips_update:
        raise UserError(
            f"run.non_finite: scheme {settings.scheme.name!r} clips no update that 'clip' could bound; take 'stop' or "
            "'drop'"
        )
    backs_off = settings.power.peak_db is not None and settings.power.peak == "back-off"
    if link == "analog" and np.isinf(bound.peak) and (backs_off or settings.power.strict):
        raise UserError(
            f"power.{'peak' if backs_off else 'strict'}: a message with the device's own noise has no largest norm to "
            f"keep to (scheme {settings.scheme.name!r}); take {'power.peak = clip' if backs_off else 'false'}"
        )
    if link == "analog" and np.isinf(bound.rms):
        raise UserError(f"scheme.link: messages of scheme {settings.scheme.name!r} have no bound to set a power by")


def _own_noise_is_bounded(settings: Settings) -> bool:
    """Whether less of the devices' own noise may be counted than arrives over an analog link: over coefficients that
    differ the least counts, and against the server often only a device's own."""
    # At the antennas, or under phases that are not known, the others' noise is not counted.
    return settings.channel.fading in SELECTIVE_MODELS or settings.privacy.observer == "server"
