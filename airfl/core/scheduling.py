"""Who takes part in a round: a blind draw, or a choice among candidates by what their channels are, or have cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from airfl.core.scenario import Cell
from airfl.errors import UserError
from airfl.learning.divergence import check_channel
from airfl.runtime.streams import Purpose
from airfl.selection import BlindRule, Candidates, ChannelRule, Ids, Memory, select, select_among
from airfl.selection.energy_budget import EnergyBudget
from airfl.uplinks.radio.parts import link_noise_std_of
from channels.csi import Knowledge, received_power
from channels.noise import disturbance_energy

Array = NDArray[np.float64]


class Choice(NamedTuple):
    """Who takes part in a round, and the channels that were estimated to find out.

    Attributes:
        devices: Ids of the devices that take part, [r].
        knowledge: What is known of their channels, [r] on the first axis.
        estimated: Ids of the devices whose channel was estimated, [c].
        rows: Where among `estimated` the devices are, [r].
    """

    devices: Ids
    knowledge: Knowledge
    estimated: Ids
    rows: Ids


def choose(cell: Cell, round_index: int, memory: Memory) -> Choice:
    """The devices of a round, and their channels as they are known."""
    run, streams, rule = cell.run, cell.streams, cell.rule
    if not isinstance(rule, ChannelRule):
        assert isinstance(rule, BlindRule)
        drawn = select(rule, streams, round_index, run.devices, run.selected)
        return _without_hearing(cell, round_index, drawn)
    count = rule.candidates or run.devices
    ids = np.sort(
        streams.generator(Purpose.CANDIDATES, round_index).choice(run.devices, count, replace=False, shuffle=False)
    )
    everyone = None
    if rule.needs_csi:
        ids, everyone = _known(cell, round_index, ids)
    nothing = np.zeros(len(ids))
    rows = select_among(
        rule,
        Candidates(
            ids=ids,
            gains=nothing if everyone is None else gains(everyone),
            rates=nothing if everyone is None else rates(cell, ids, everyone),
            mean_rates=nothing if memory.mean_rate is None else memory.mean_rate[ids],
            spent=nothing if memory.spent is None else memory.spent[ids],
            costs=cell.most_energy[ids],
            own={name: array[ids] for name, array in memory.own.items()},
        ),
        streams,
        round_index,
        run.selected,
    )
    if everyone is None:
        return _without_hearing(cell, round_index, ids[rows])
    return Choice(ids[rows], everyone.take(rows), ids, rows)


def _without_hearing(cell: Cell, round_index: int, devices: Ids) -> Choice:
    """Devices that were taken whatever their channels are: theirs alone are estimated."""
    devices, knowledge = _known(cell, round_index, devices)
    return Choice(devices, knowledge, devices, np.arange(len(devices)))


def _known(cell: Cell, round_index: int, devices: Ids) -> tuple[Ids, Knowledge]:
    """The channels of these devices, of those whose channel is finite where others are left out."""
    knowledge = cell.radio.know(round_index, devices, cell.frame, cell.element_power[devices])
    finite = knowledge.finite
    if finite.all():
        return devices, knowledge
    check_channel(finite, devices, round_index, cell.run.non_finite)
    return devices[finite], knowledge.take(np.flatnonzero(finite))


def check_energy_budget(cell: Cell) -> None:
    """UserError for a budget that covers not one round of anybody."""
    budget = cell.rule.energy_budget if isinstance(cell.rule, EnergyBudget) else None
    if budget is not None:
        least = float(cell.most_energy.min())
        if least > budget:
            raise UserError(
                f"selection.energy_budget: {budget:g} does not cover one round of any device, which may take from "
                f"{least:.4g}; raise it"
            )


def gains(knowledge: Knowledge) -> Array:
    """|hhat|, root mean square over antennas and elements, [devices]."""
    response = knowledge.estimate.response
    return np.asarray(np.sqrt(received_power(response).mean(axis=(1, 2)) / response.shape[1]))


def rates(cell: Cell, devices: Ids, knowledge: Knowledge) -> Array:
    """The mean of log2(1 + SINR) over a device's elements at its power limit, bit/s/Hz, [devices], antennas combined
    by their maximum ratio. Against it are the noise N_0 = 2 sigma_0^2 of a complex element, other cells, and what the
    device leaks itself, of which a measured SINR tells: as much on every element."""
    channel = cell.radio.sections.channel
    noise_std = link_noise_std_of(channel, cell.radio.sections.grid)
    disturbance = disturbance_energy(noise_std, channel.interference_to_noise_db)
    # What paths beyond the prefix leak is lost to the estimate, and heard all the same.
    energy = cell.element_power[devices] / (1 - knowledge.late)
    received = received_power(knowledge.estimate.response) * energy[:, None, None]
    leakage = knowledge.leakage[:, None, None]
    leaked = received.mean(axis=(1, 2), keepdims=True) * leakage
    return np.asarray(np.log2(1 + received * (1 - leakage) / (disturbance + leaked)).mean(axis=(1, 2)))
