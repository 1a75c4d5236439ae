"""A round before anybody trains: who is selected, over which channel, what is known of it, and what beta tells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from airfl.core.downlink import broadcast
from airfl.core.scenario import Cell, noise_multiplier
from airfl.core.scheduling import choose, rates
from airfl.privacy.disclosure import Disclosure
from airfl.selection import ChannelRule, Ids, Memory, remembered
from airfl.uplinks import AnalogUplink, Link, Terms
from channels.broadcast import Broadcast
from channels.csi import ChannelEstimate, ChannelState, Knowledge

if TYPE_CHECKING:
    from torch import device

# Factors on the devices' own noise: up to which one is looked for, and how exactly.
MOST_OWN_NOISE, OWN_NOISE_ACCURACY = 64.0, 1e-9


@dataclass(frozen=True)
class Opening:
    """A round before anybody trains.

    Attributes:
        devices: S^t, ids of the selected devices, [r].
        knowledge: What is known of their channels.
        link: The uplink, open to them.
        memory: What selection remembers after this round.
        broadcast: What the downlink takes, None where it is ideal.
        own_noise: Factor on the noise that the devices' stages have by themselves.
        disclosure: What beta tells of who was selected, None where it tells nothing that is accounted.
    """

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


def open_round(cell: Cell, round_index: int, memory: Memory, device: device | str = "cpu") -> Opening:
    """Select, fade, estimate, open the uplink: all of round t that is known before training."""
    radio, run = cell.radio, cell.run
    devices, knowledge, candidates, rows = choose(cell, round_index, memory)
    divisor = len(devices) if isinstance(cell.rule, ChannelRule) else run.selected
    weights = cell.weights[devices]
    if cell.everybody_sets_beta:
        candidates, rows = np.arange(run.devices), devices  # all of them are estimated
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
        pilots=radio.pilots(knowledge.estimate.response.shape, candidates, rows, cell.element_power),
        energy_unit=radio.energy_unit,
        streams=cell.streams,
        round_index=round_index,
        device=device,
        record=cell.trace.records_signals(round_index),
        multipath=radio.multipath(round_index, devices, cell.frame),
    )
    if cell.everybody_sets_beta or (cell.discloses and cell.population_fits):
        terms = replace(terms, population=_everybody(cell, terms))
    link = cell.recipe.uplink.open(terms)
    if cell.recipe.noise_target is not None:
        terms = _filled(cell, terms, cell.recipe.noise_target)
        link = cell.recipe.uplink.open(terms)
    if cell.rule.remembers:
        energy = link.at_bound().devices.energy
        memory = remembered(cell.rule, memory, devices, rates(cell, devices, knowledge), energy)
    downlink = None
    if radio.sections.grid.downlink:
        downlink = broadcast(radio, cell.dimension, knowledge, cell.bound.mask_bits)
    return Opening(devices, knowledge, link, memory, downlink, terms.own_noise, _disclosure(cell, terms))


def _everybody(cell: Cell, terms: Terms) -> Terms | None:
    """The terms of all devices; where some channel is not finite None, or those of the others if they set beta."""
    everyone = np.arange(cell.run.devices)
    knowledge = cell.radio.know(terms.round_index, everyone, cell.frame, cell.element_power)
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
