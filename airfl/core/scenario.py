"""The radio side of a run: who takes part in a round, over which channel, with which link. No data, no model, no torch.

A round of learning starts from it; a link budget is made of it alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airfl.config.settings import RunSettings, TraceSettings
from airfl.privacy.accountants import accountant_of_settings
from airfl.privacy.disclosure import Disclosure
from airfl.privacy.events import Event
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.statement import BetaTells, Statement
from airfl.runtime.streams import Streams
from airfl.schemes.recipe import Recipe
from airfl.schemes.scheme import LinkKind
from airfl.selection import ChannelRule, Memory, SelectionRule, first_memory, sampling_of
from airfl.uplinks import AnalogUplink, LinkReport
from airfl.uplinks.radio import Radio, power_policy
from airfl.uplinks.stages import MessageBound
from channels.frame import Frame

Array = NDArray[np.float64]

# Of the population's channels, coefficients up to which they are computed in every round to tell what beta discloses;
# beyond, the observer is granted who was selected.
MOST_COEFFICIENTS = 200_000


@dataclass(frozen=True)
class Cell:
    """Population, radio and scheme, as they hold for all rounds.

    Attributes:
        run: Rounds, devices, how many of them are selected.
        rule: Who takes part in a round.
        trace: What a round is to record of its signals.
        streams: Of random numbers.
        radio: Channels of all devices, what is known of them, and their powers.
        dimension: d, parameters of the model.
        link: What carries the messages.
        recipe: Of the scheme.
        bound: On one message.
        frame: Resource elements of a message.
        entries_sharing_power: Entries whose resource elements share a device's transmit power, where they are fewer
            than the used subcarriers.
        power_limit: What P_i bounds.
        power_limits: P_i over the radio's energy unit, [N].
        weights: Of the devices in the mean, [N].
        samples: Of the device that has fewest.
        statement: What the privacy figures are for.
    """

    run: RunSettings
    rule: SelectionRule
    trace: TraceSettings
    streams: Streams
    radio: Radio
    dimension: int
    link: LinkKind
    recipe: Recipe
    bound: MessageBound
    frame: Frame
    entries_sharing_power: int
    power_limit: Literal["round_energy", "transmit_power"]
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
    def population_fits(self) -> bool:
        """Whether the channels of all N devices are few enough to be computed in every round."""
        blocks, subcarriers = self.radio.observed_shape(self.frame)
        return self.run.devices * self.antennas * blocks * subcarriers <= MOST_COEFFICIENTS

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
        one_by_one = uplink.control.one_by_one(self.antennas, flat) and self.population_fits
        return "exact" if one_by_one and not tie else "granted"

    @cached_property
    def discloses(self) -> bool:
        """Whether beta tells the observer who was selected, and nothing else does."""
        return self.beta_tells in ("exact", "granted") and self.statement.hidden

    @property
    def memory(self) -> Memory:
        """What selection remembers before the first round."""
        return first_memory(self.rule, self.run.devices)

    @property
    def antennas(self) -> int:
        """Of the server."""
        return self.radio.sections.antennas.count

    # Of the whole population, so computed once: a round costs what its own devices cost.

    @cached_property
    def element_power(self) -> Array:
        """Mean energy of a resource element of a whole update at the limit P_i, over the energy unit, [N]: in physical
        units the transmit power on it (of the message, where that alone has the power); in normalised ones P_i/d, and
        twice that where two entries of an analog link share it."""
        if not self.radio.physical and self.link != "analog":
            return self.power_limits / self.dimension
        sharing = self.entries_sharing_power
        return self.power_limits / (self.radio.grid.elements_for(sharing) * self.dimension / sharing)

    @cached_property
    def largest_weight(self) -> float:
        """Of anybody's update in the mean."""
        return float(self.weights.max())

    @cached_property
    def most_energy(self) -> Array:
        """That a round may take of each device in expectation, [N]."""
        return _most_energy(self)


def noise_multiplier(cell: Cell, report: LinkReport) -> float:
    """Noise over the largest contribution of one device, or of one record, in what is released; 0 without noise or
    bound, inf where the channel left nobody to take part and nothing is released."""
    if isinstance(cell.rule, ChannelRule) and not len(report.devices.energy):
        return float("inf")
    return cell.recipe.release.noise_multiplier(cell.bound, cell.largest_weight, report)


def paper_cost_mb(cell: Cell) -> float:
    """The papers' "Cost (MB)" of a device: values x bits x T r/N, in 10^6 bytes (Fed-SPA section 5.2, Fed-SMP section
    6.3). What names the coordinates is left out, as there; nan for an analog link."""
    if cell.link == "analog":
        return float("nan")
    run = cell.run
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
    release.check(sampling_of(cell.rule))
    with accountant_of_settings():
        return PrivacyLedger(cell.statement, like=release.event(1.0))


def _most_energy(cell: Cell) -> Array:
    """The most energy a round may take of each device in expectation, pilots included, [N]."""
    radio = cell.radio
    ratio = 1.0 if cell.power_limit == "round_energy" else cell.bound.entries / cell.dimension
    everyone = np.arange(cell.run.devices)
    shape = (1, 1, *radio.response_shape(cell.frame))
    pilots = radio.pilots(shape, everyone, everyone, cell.element_power).energy
    return np.asarray(cell.power_limits * ratio * _worst_fade(cell) * radio.energy_unit + pilots)


def _worst_fade(cell: Cell) -> float:
    """How far a round may exceed a limit that holds on the mean over fades: inversion at the threshold t takes
    1/(t E[P/|h|^2; |h|^2 >= t P]) times that mean, with the smallest |h|^2/P in place of a t below it."""
    fades, policy = cell.radio.fades, power_policy(cell.radio.sections)
    if not policy.over_fading:
        return 1.0
    assert fades is not None
    threshold = policy.least_power
    least = max(threshold, fades.least_power)
    return 1 / (least * fades.inverse_power(threshold)) if least else np.inf
