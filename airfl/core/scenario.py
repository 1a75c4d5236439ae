"""What holds for all rounds of a run: population, radio and scheme, and what follows from them alone.

It needs no data, no model and no torch. A round of learning starts from it, and a link budget needs nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airfl.config.run import RunSettings, TraceSettings
from airfl.privacy.statement import BetaTells, Statement
from airfl.runtime.streams import Streams
from airfl.schemes.recipe import Recipe
from airfl.schemes.scheme import LinkKind
from airfl.selection import Memory, SelectionRule, first_memory
from airfl.uplinks import AnalogUplink, DigitalUplink, IdealUplink
from airfl.uplinks.radio import NeighbourCell, Radio, power_policy
from airfl.uplinks.stages import MessageBound
from channels.frame import Frame

Array = NDArray[np.float64]

# Largest number of channel coefficients of the population for which they are computed in every round to determine what
# beta discloses. Above it, the observer is assumed to know which devices were selected.
MOST_COEFFICIENTS = 200_000


@dataclass(frozen=True)
class Scenario:
    """The scenario of a run: population, radio and scheme, which stay the same in all rounds.

    Attributes:
        run: Numbers of rounds, of devices, and of selected devices.
        rule: Rule that selects the devices of a round.
        trace: Which signals a round records.
        streams: Random number streams.
        radio: Channels of all devices, CSI, and powers.
        dimension: d, number of model parameters.
        link: The link that carries the messages.
        recipe: Recipe of the scheme.
        bound: Bound on one message.
        frame: Resource elements of a message.
        entries_sharing_power: Number of entries whose resource elements share a device's transmit power.
        elements_sharing_power: Number of resource elements that share it, if these are fewer than the used subcarriers.
        power_limit: The quantity that P_i bounds.
        power_limits: P_i divided by the radio's energy unit, [N].
        weights: Weights of the devices in the mean, [N].
        samples: Samples of the device with the fewest.
        statement: The statement that the privacy figures refer to.
        neighbours: Neighbouring cells, whose devices send at the same time.
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
    elements_sharing_power: int
    power_limit: Literal["round_energy", "transmit_power"]
    power_limits: Array
    weights: Array
    samples: int
    statement: Statement
    neighbours: tuple[NeighbourCell, ...] = ()

    @cached_property
    def everybody_sets_beta(self) -> bool:
        """Whether beta depends on all N devices, selected or not."""
        uplink = self.recipe.uplink
        return isinstance(uplink, AnalogUplink) and uplink.control.alignment == "population"

    @cached_property
    def population_fits(self) -> bool:
        """Whether the channels of all N devices are few enough to be computed in every round."""
        blocks, subcarriers = self.radio.observed_shape(self.frame)
        return self.run.devices * self.antennas * blocks * subcarriers <= MOST_COEFFICIENTS

    @cached_property
    def beta_tells(self) -> BetaTells:
        """How the privacy figures treat a beta that depends on the selected devices, see `BetaTells`."""
        uplink, statement = self.recipe.uplink, self.statement
        if statement.sampled and (statement.granted or statement.remembered):
            return "granted"
        flat = self.radio.observed_shape(self.frame) == (1, 1)
        if not isinstance(uplink, AnalogUplink) or not statement.sampled or not uplink.control.sample_sets_beta(flat):
            return "nothing"
        if statement.gains == "private":
            return "unknown"
        limits = self.power_limits * self.weights**-2.0
        tie = len(np.unique(limits)) < len(limits)  # gains at their bounds can then be equal
        one_by_one = uplink.control.one_by_one(self.antennas, flat) and self.population_fits
        return "exact" if one_by_one and not tie else "granted"

    @cached_property
    def discloses(self) -> bool:
        """Whether beta, and nothing else, reveals the selected devices to the observer."""
        return self.beta_tells in ("exact", "granted") and self.statement.hidden

    @cached_property
    def asks_everybody(self) -> bool:
        """Whether a round needs the channels of all N devices: because all of them set beta, or because beta tells who
        was selected to an observer who knows these channels."""
        return self.everybody_sets_beta or (self.discloses and self.population_fits)

    @property
    def memory(self) -> Memory:
        """The memory of device selection before the first round."""
        return first_memory(self.rule, self.run.devices)

    @property
    def antennas(self) -> int:
        """Number of antennas of the server."""
        return self.radio.sections.antennas.count

    # These cover the whole population and are computed once, so that a round only costs what its own devices cost.

    @cached_property
    def element_power(self) -> Array:
        """Mean energy of a resource element of a whole update at the limit P_i, divided by the energy unit, [N].

        In physical units, this is the transmit power on the element (on one of the message if the message alone has the
        power). In normalised units, it is P_i/d, and twice that if two entries of an analog link share the element.
        """
        return self._on_element(self.power_limits)

    def _on_element(self, limits: Array) -> Array:
        if not self.radio.physical and self.link != "analog":
            return limits / self.dimension
        sharing = self.entries_sharing_power
        return limits / (self.radio.grid.elements_for(sharing) * self.dimension / sharing)

    @cached_property
    def neighbour_powers(self) -> tuple[tuple[Array, Array], ...]:
        """`power_limits` and `element_power` of the devices of each neighbouring cell, [N] each."""
        sharing = self.entries_sharing_power, self.elements_sharing_power
        limits = [cell.serving.power_limits(self.dimension, *sharing) for cell in self.neighbours]
        return tuple((each, self._on_element(each)) for each in limits)

    @cached_property
    def largest_weight(self) -> float:
        """The largest weight of a device's update in the mean."""
        return float(self.weights.max())

    @cached_property
    def most_energy(self) -> Array:
        """The most energy that a round may take from each device in expectation, pilots included, [N]."""
        return _most_energy(self)


def _most_energy(scenario: Scenario) -> Array:
    """Return the most energy that a round may take from each device in expectation, pilots included, [N].

    A device whose message is bits sends until they have arrived, or until the deadline; inf without one.
    """
    radio, uplink = scenario.radio, scenario.recipe.uplink
    if isinstance(uplink, DigitalUplink | IdealUplink):
        elements = np.floor(uplink.deadline_s / radio.grid.mean_symbol_s) * radio.grid.used_subcarriers
        shape = (1, 1, *radio.response_shape(scenario.frame))
        pilots = radio.most_pilot_energy(shape, scenario.element_power)
        return np.asarray(scenario.element_power * elements * radio.energy_unit + pilots)
    ratio = 1.0 if scenario.power_limit == "round_energy" else scenario.bound.entries / scenario.dimension
    shape = (1, 1, *radio.response_shape(scenario.frame))
    pilots = radio.most_pilot_energy(shape, scenario.element_power)
    return np.asarray(scenario.power_limits * ratio * _worst_fade(scenario) * radio.energy_unit + pilots)


def _worst_fade(scenario: Scenario) -> float:
    """Return the factor by which a round may exceed a limit that holds on average over the fading.

    Inversion at the threshold t takes 1/(t E[P/|h|^2; |h|^2 >= t P]) times that average, with the smallest |h|^2/P in
    place of t if t is below it.
    """
    fades, policy = scenario.radio.fades, power_policy(scenario.radio.sections)
    if not policy.over_fading:
        return 1.0
    assert fades is not None
    threshold = policy.least_power
    least = max(threshold, fades.least_power)
    return 1 / (least * fades.inverse_power(threshold)) if least else np.inf
