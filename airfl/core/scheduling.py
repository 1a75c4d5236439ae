"""Selection of the devices of a round: a blind draw, or a choice among candidates by their channels or past costs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.learning.divergence import check_channel
from airfl.runtime.streams import Purpose
from airfl.selection import BlindRule, Candidates, ChannelRule, Ids, Memory, select, select_among
from airfl.selection.energy_budget import EnergyBudget
from airfl.uplinks.radio.parts import link_noise_std_of
from channels.csi import ChannelInformation, received_power
from channels.interference import disturbance

Array = NDArray[np.float64]


class Everybody(NamedTuple):
    """The devices of the whole population that have a channel in a round.

    Attributes:
        ids: Their ids, ascending.
        csi: Their channels and CSI, in this order.
    """

    ids: Ids
    csi: ChannelInformation


class Schedule(NamedTuple):
    """The devices that take part in a round, and the channels that were estimated to choose them.

    Attributes:
        devices: Ids of the devices that take part, [r].
        csi: Their channels and CSI, [r] on the first axis.
        estimated: Ids of the devices whose channel was estimated, [c].
        rows: Positions of `devices` in `estimated`, [r].
        sampled: Ids of the devices that the rule selected, those without a channel among them, [s].
        unreachable: Number of devices without a path, in outage, or that missed the trigger, among those that were
            selected, or among the candidates of a rule by channel. They take no part and are charged nothing.
    """

    devices: Ids
    csi: ChannelInformation
    estimated: Ids
    rows: Ids
    sampled: Ids
    unreachable: int


def everybody(scenario: Scenario, round_index: int) -> Everybody:
    """Return the channels of the whole population in a round; some may not be finite."""
    everyone = np.arange(scenario.run.devices)
    return Everybody(*scenario.radio.reached(round_index, everyone, scenario.frame, scenario.element_power))


def schedule(scenario: Scenario, round_index: int, memory: Memory, population: Everybody | None = None) -> Schedule:
    """Return the devices of a round with their channels and CSI.

    population: the channels of the whole population, if they have been computed; those of the devices are then taken
    from them, where they do not depend on who else is asked for.
    """
    run, streams, rule = scenario.run, scenario.streams, scenario.rule
    if not isinstance(rule, ChannelRule):
        assert isinstance(rule, BlindRule)
        drawn = select(rule, streams, round_index, run.devices, run.selected)
        return _without_csi(scenario, round_index, drawn, population if scenario.radio.one_by_one else None)
    count = rule.candidates or run.devices
    ids = np.sort(
        streams.generator(Purpose.CANDIDATES, round_index).choice(run.devices, count, replace=False, shuffle=False)
    )
    everyone, unreachable = None, 0
    if rule.needs_csi:
        ids, everyone, unreachable = _known(scenario, round_index, ids)
    nothing = np.zeros(len(ids))
    rows = select_among(
        rule,
        Candidates(
            ids=ids,
            gains=nothing if everyone is None else gains(everyone),
            rates=nothing if everyone is None else rates(scenario, ids, everyone),
            mean_rates=nothing if memory.mean_rate is None else memory.mean_rate[ids],
            spent=nothing if memory.spent is None else memory.spent[ids],
            costs=scenario.most_energy[ids],
            own={name: array[ids] for name, array in memory.own.items()},
        ),
        streams,
        round_index,
        run.selected,
    )
    if everyone is None:
        return _without_csi(scenario, round_index, ids[rows])
    return Schedule(ids[rows], everyone.take(rows), ids, rows, ids[rows], unreachable)


def _without_csi(scenario: Scenario, round_index: int, devices: Ids, population: Everybody | None = None) -> Schedule:
    """Return the choice of devices selected regardless of their channels, so that only their channels are estimated."""
    reached, csi, unreachable = _known(scenario, round_index, devices, population)
    sampled = devices if unreachable else reached
    return Schedule(reached, csi, reached, np.arange(len(reached)), sampled, unreachable)


def _known(
    scenario: Scenario, round_index: int, devices: Ids, population: Everybody | None = None
) -> tuple[Ids, ChannelInformation, int]:
    """Return the devices that have a channel, with their channels and CSI, and how many of the given ones have none.

    Devices whose channel is not finite are left out if the run drops them.
    """
    if population is None:
        reached, csi = scenario.radio.reached(round_index, devices, scenario.frame, scenario.element_power[devices])
    else:
        places = np.searchsorted(population.ids, devices)
        reached = np.flatnonzero(np.append(population.ids, -1)[places] == devices)
        csi = population.csi.take(places[reached])
    unreachable = len(devices) - len(reached)
    devices = devices[reached] if unreachable else devices
    finite = csi.finite
    if finite.all():
        return devices, csi, unreachable
    check_channel(finite, devices, round_index, scenario.run.non_finite)
    return devices[finite], csi.take(np.flatnonzero(finite)), unreachable


def check_energy_budget(scenario: Scenario) -> None:
    """Raise UserError if the energy budget does not cover a single round of any device."""
    budget = scenario.rule.energy_budget if isinstance(scenario.rule, EnergyBudget) else None
    if budget is not None:
        least = float(scenario.most_energy.min())
        if math.isinf(least):
            raise UserError(
                f"selection.energy_budget: nothing bounds the energy of a round over the {scenario.link} link without "
                "a deadline (given: digital.deadline_s = inf); set digital.deadline_s, or use another selection.kind"
            )
        if least > budget:
            raise UserError(
                f"selection.energy_budget: {budget:g} does not cover one round of any device, which may take from "
                f"{least:.4g}; raise it"
            )


def gains(csi: ChannelInformation) -> Array:
    """Return |hhat|, the root mean square over antennas and elements, [devices]."""
    response = csi.estimate.response
    return np.asarray(np.sqrt(received_power(response).mean(axis=(1, 2)) / response.shape[1]))


def rates(scenario: Scenario, devices: Ids, csi: ChannelInformation) -> Array:
    """Return the mean of log2(1 + SINR) over a device's elements at its power limit, in bit/s/Hz, [devices].

    Antennas are combined by maximum ratio combining. The disturbance consists of the noise N_0 = 2 sigma_0^2 of a
    complex element, of interference from other cells, and of the device's own leakage, which a measured SINR includes
    and which is the same on every element.
    """
    channel = scenario.radio.sections.channel
    noise_std = link_noise_std_of(channel, scenario.radio.sections.grid)
    against = disturbance(noise_std, channel.interference_to_noise_db, channel.interference_model)
    # The leakage of paths beyond the prefix is missing from the estimate but is received nevertheless.
    energy = scenario.element_power[devices] / (1 - csi.late)
    received = received_power(csi.estimate.response) * energy[:, None, None]
    leakage = csi.leakage[:, None, None]
    leaked = received.mean(axis=(1, 2), keepdims=True) * leakage
    sinr = received * (1 - leakage) / (against.energy + leaked)
    return np.asarray(np.log2(1 + (sinr if against.effective is None else against.effective(sinr))).mean(axis=(1, 2)))
