"""The radio side of a run: who takes part in a round, over which channel, with which link. No data, no model, no torch.

A round of learning starts from it; a link budget is made of it alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from airfl.choice import check_energy_budget, choose, rates, round_costs
from airfl.config import Settings
from airfl.downlink import broadcast
from airfl.errors import UserError
from airfl.privacy.accountants import accountant_of_settings
from airfl.privacy.events import Event
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.statement import statement_of
from airfl.radio import Radio, build_radio, check_radio, check_size
from airfl.schemes import fitted, link_of, scheme
from airfl.schemes.recipe import LinkKind, Problem, Recipe
from airfl.selection import SELECTIONS, Ids, Memory
from airfl.stages import MessageBound, bound_after
from airfl.streams import Streams
from airfl.uplinks import Link, LinkReport, Terms
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
# Of the formulas: below them they have no digits left.
SMALLEST_EPSILON, SMALLEST_DELTA = 1e-10, 1e-100


@dataclass(frozen=True)
class Cell:
    """Population, radio and scheme, as they hold for all rounds.

    dimension: d; link: what carries the messages; bound: on one message; frame: its resource elements; power_limits:
    P_i over the radio's energy unit, [N]; weights: of the mean, [N]; samples: of the device that has fewest.
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
    devices, over what their stages have by themselves."""

    devices: Ids
    knowledge: Knowledge
    link: Link
    memory: Memory
    broadcast: Broadcast | None
    own_noise: float = 1.0

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
    )
    check_energy_budget(cell)
    return cell


def open_round(cell: Cell, round_index: int, memory: Memory, device: device | str = "cpu") -> Opening:
    """Select, fade, estimate, open the uplink: all of round t that is known before training."""
    settings, radio = cell.settings, cell.radio
    devices, knowledge, candidates, rows = choose(cell, round_index, memory)
    divisor = len(devices) if SELECTIONS[settings.selection.kind].among else settings.run.selected
    weights = cell.weights[devices]
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
    return Opening(devices, knowledge, link, memory, downlink, terms.own_noise)


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


def build_ledger(cell: Cell) -> PrivacyLedger:
    """The ledger of a run of this cell; UserError where its accountant has no bound for what is released."""
    release = cell.recipe.release
    statement = statement_of(cell.settings, release.level, cell.link)
    statement = replace(statement, attained=statement.attained and release.attained and not _own_noise_is_bounded(cell))
    release.check(SELECTIONS[cell.settings.selection.kind].sampling)
    with accountant_of_settings():
        return PrivacyLedger(statement, like=release.event(1.0))


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


def _own_noise_is_bounded(cell: Cell) -> bool:
    """Whether less of the devices' own noise may be counted than there is: over coefficients that differ the least
    counts, and against the server often only a device's own."""
    if cell.link != "analog" or not cell.bound.noise_std:
        return False
    settings = cell.settings
    # At the antennas, or under phases that are not known, the others' noise is not counted.
    return settings.channel.fading in SELECTIVE_MODELS or settings.privacy.observer == "server"
