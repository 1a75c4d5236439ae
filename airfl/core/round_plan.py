"""The plan of a round, made before training: the selected devices, their channels and CSI, and what beta discloses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from airfl.config.part_keys import name_of
from airfl.core.accounting import noise_multiplier
from airfl.core.downlink import broadcast, over_the_band
from airfl.core.scenario import Scenario
from airfl.core.scheduling import Everybody, everybody, rates, schedule
from airfl.errors import UserError
from airfl.privacy.disclosure import Disclosure
from airfl.selection import BlindRule, ChannelRule, Ids, Memory, remembered, select
from airfl.uplinks import AnalogUplink, Link, UplinkContext
from airfl.uplinks.uplink import NeighbourRound
from channels.broadcast import Broadcast
from channels.csi import ChannelEstimate, ChannelInformation, ChannelState

if TYPE_CHECKING:
    from torch import device

# Largest factor on the devices' own noise that is searched for, and the accuracy of the search.
MOST_OWN_NOISE, OWN_NOISE_ACCURACY = 64.0, 1e-9


@dataclass(frozen=True)
class RoundPlan:
    """The plan of a round, made before training.

    Attributes:
        devices: S^t, ids of the selected devices, [r].
        csi: Their channels and CSI.
        link: The uplink, opened for them.
        memory: Memory of device selection after this round.
        broadcast: Cost of the downlink; None if it is ideal.
        divisor: The number by which the link divides the sum of the messages to give the mean.
        device_noise_factor: Factor on the noise that the devices' stages add themselves.
        disclosure: What beta reveals about the selected devices; None if it reveals nothing that is accounted for.
        unreachable: Number of selected or considered devices without a path, in outage, or that missed the trigger;
            they take no part.
        selected: Number of devices that the rule selected, including those without a channel, which take no part.
    """

    devices: Ids
    csi: ChannelInformation
    link: Link
    memory: Memory
    broadcast: Broadcast | None
    divisor: float
    device_noise_factor: float = 1.0
    disclosure: Disclosure | None = None
    unreachable: int = 0
    selected: int = 0

    @property
    def channel(self) -> ChannelState:
        """The true channels of the selected devices."""
        return self.csi.state

    @property
    def estimate(self) -> ChannelEstimate:
        """The estimated channels of the selected devices."""
        return self.csi.estimate


def plan_round(scenario: Scenario, round_index: int, memory: Memory, device: device | str = "cpu") -> RoundPlan:
    """Return the plan of round t: select the devices, draw and estimate their channels, and open the uplink."""
    radio, run = scenario.radio, scenario.run
    everyone = everybody(scenario, round_index) if scenario.asks_everybody else None
    devices, csi, candidates, rows, sampled, unreachable = schedule(scenario, round_index, memory, everyone)
    if unreachable and not radio.silent:
        _check_hidden(scenario, round_index)
    divisor = len(sampled) if isinstance(scenario.rule, ChannelRule) else run.selected
    weights = scenario.weights[devices]
    absent = np.setdiff1d(sampled, devices) if len(sampled) > len(devices) else devices[:0]
    context = UplinkContext(
        csi=csi,
        frame=scenario.frame,
        power_limits=scenario.power_limits[devices],
        rms_norms=scenario.bound.rms * weights,
        peak_norms=scenario.bound.peak * weights,
        weights=weights,
        message=scenario.bound,
        ids=devices,
        element_power=scenario.element_power[devices],
        entries=scenario.bound.entries,
        dimension=scenario.dimension,
        divisor=float(divisor),
        fades=radio.fades,
        pilots=radio.pilots(csi.estimate.response.shape, candidates, rows, scenario.element_power),
        energy_unit=radio.energy_unit,
        streams=scenario.streams,
        round_index=round_index,
        device=device,
        record=scenario.trace.records_signals(round_index),
        multipath=radio.multipath(round_index, devices, scenario.frame),
        sampled=sampled,
        absent_weight=float(scenario.weights[absent[radio.mean_power[absent] > 0]].sum()),
    )
    if everyone is not None:
        population = _of_everybody(scenario, context, everyone)
        context = replace(context, population=population)
        if scenario.everybody_sets_beta and population is not None:  # all channels are estimated
            shape, rows = csi.estimate.response.shape, np.searchsorted(population.ids, devices)
            context = replace(context, pilots=radio.pilots(shape, population.ids, rows, scenario.element_power))
    if scenario.neighbours:
        cells, frame = scenario.neighbours, scenario.frame
        elsewhere = [cell.of_this_cell for cell in cells if cell.of_this_cell is not None]
        context = replace(
            context,
            neighbours=_neighbours(scenario, context),
            elsewhere=tuple(radio.channel(round_index, devices, frame).response for radio in elsewhere),
        )
    link = scenario.recipe.uplink.open(context)
    if scenario.recipe.noise_target is not None:
        device_noise_factor = _device_noise(scenario, link, scenario.recipe.noise_target)
        if device_noise_factor is not None:
            context, link = context.with_device_noise(device_noise_factor), link.with_device_noise(device_noise_factor)
    if scenario.rule.remembers:
        energy = link.link_budget().devices.energy
        memory = remembered(scenario.rule, memory, devices, rates(scenario, devices, csi), energy)
    downlink = None
    if radio.sections.grid.downlink:
        power, coefficients = scenario.element_power[devices], int(np.prod(csi.state.response.shape[2:]))
        whole = over_the_band(radio, round_index, devices, csi, scenario.frame, power)
        downlink = broadcast(radio, scenario.dimension, whole, coefficients, scenario.bound.mask_bits)
    return RoundPlan(
        devices=devices,
        csi=csi,
        link=link,
        memory=memory,
        broadcast=downlink,
        divisor=context.divisor,
        device_noise_factor=context.device_noise_factor,
        disclosure=_disclosure(scenario, context),
        unreachable=unreachable,
        selected=len(sampled),
    )


class PlanAhead:
    """Makes the plan of a round when it is needed, unless it was made ahead, while other threads trained.

    On a CPU a plan depends on scenario, round and memory alone, so that it does not matter when it is made. It is used
    once, since the link that it opens is.
    """

    def __init__(self) -> None:
        self._made: tuple[Scenario, int, Memory, RoundPlan] | None = None

    def prepare(self, scenario: Scenario, round_index: int, memory: Memory) -> RoundPlan:
        """Make the plan of a round on a CPU now."""
        plan = plan_round(scenario, round_index, memory)
        self._made = scenario, round_index, memory, plan
        return plan

    def plan(self, scenario: Scenario, round_index: int, memory: Memory, device: device | str = "cpu") -> RoundPlan:
        """Return `plan_round` of these arguments."""
        made, self._made = self._made, None
        if made and made[0] is scenario and made[1] == round_index and made[2] is memory:
            return made[3]
        return plan_round(scenario, round_index, memory, device)


def _check_hidden(scenario: Scenario, round_index: int) -> None:
    """Raise UserError if devices that unexpectedly have no channel would weaken the privacy figures.

    The sum of the devices' own noise tells how many of them took part. If that is known in advance to vary, the
    observer is granted the selection, see `is_granted`.
    """
    if scenario.statement.hidden and scenario.recipe.adds_noise(scenario.bound):
        raise UserError(
            f"channel.fading: {name_of(scenario.radio.sections.channel.fading)!r} leaves selected devices without a "
            f"channel (H = 0) in round {round_index}, and the noise of the others shows how many took part; use "
            'privacy.observer = "server", or record the channel and use fading = "replay"'
        )


def _of_everybody(scenario: Scenario, context: UplinkContext, population: Everybody) -> UplinkContext | None:
    """Return the context of all devices that have a channel.

    If some channels are not finite, return None, or that of the other devices if all devices set beta.
    """
    everyone, csi = population
    finite = csi.finite
    if not finite.all():
        if not scenario.everybody_sets_beta:
            return None
        everyone, csi = everyone[finite], csi.take(np.flatnonzero(finite))
    weights = scenario.weights[everyone]
    return replace(
        context,
        csi=csi,
        power_limits=scenario.power_limits[everyone],
        rms_norms=scenario.bound.rms * weights,
        peak_norms=scenario.bound.peak * weights,
        weights=weights,
        ids=everyone,
        element_power=scenario.element_power[everyone],
        multipath=None,
        sampled=np.arange(scenario.run.devices),
        population=None,
    )


def _neighbours(scenario: Scenario, context: UplinkContext) -> tuple[NeighbourRound, ...]:
    """Return the same round of the neighbouring cells, whose devices are selected by the same rule, with messages of
    the largest power that their bound allows."""
    rounds, run, bound, t = [], scenario.run, scenario.bound, context.round_index
    assert isinstance(scenario.rule, BlindRule)
    for cell, (limits, element_power) in zip(scenario.neighbours, scenario.neighbour_powers, strict=True):
        drawn = select(scenario.rule, cell.streams, t, run.devices, run.selected)
        reached, csi = cell.serving.reached(t, drawn, scenario.frame, element_power[drawn])
        devices = drawn[reached]
        ones = np.ones(len(devices))
        own = replace(
            context,
            csi=csi,
            power_limits=limits[devices],
            rms_norms=bound.rms * ones,
            peak_norms=bound.peak * ones,
            weights=ones,
            ids=devices,
            element_power=element_power[devices],
            fades=cell.serving.fades,
            streams=cell.streams,
            record=False,
            multipath=None,
            sampled=drawn,
            absent_weight=0.0,
            population=None,
            elsewhere=tuple(radio.channel(t, devices, scenario.frame).response for radio in cell.elsewhere),
        )
        rounds.append(NeighbourRound(own, cell.crossing_of(t, devices, scenario.frame)))
    return tuple(rounds)


def _disclosure(scenario: Scenario, context: UplinkContext) -> Disclosure | None:
    """Return what beta reveals about the selected devices; None if it reveals nothing that is accounted for."""
    if not scenario.discloses:
        return None
    assert isinstance(scenario.recipe.uplink, AnalogUplink)
    return scenario.recipe.uplink.control.disclosure(context, poisson=scenario.statement.sampling == "poisson")


def disclosure_again(scenario: Scenario, round_index: int) -> Disclosure | None:
    """Return what beta disclosed in a finished round.

    No memory of earlier rounds is needed: only blind selection hides devices, and it has no memory.
    """
    return plan_round(scenario, round_index, scenario.memory).disclosure if scenario.discloses else None


def _device_noise(scenario: Scenario, link: Link, target: float) -> float | None:
    """Return the factor on the devices' own noise with which the round reaches a noise multiplier of `target`.

    The channel's noise counts first. Over an analog link, devices that add less noise spend less power on it, so that
    an update arrives stronger relative to the receiver's noise. The factor at which both noises together suffice is
    therefore found numerically. None if no factor suffices, as no message is received, or too few for enough noise: the
    devices then add what the scheme says, and the ledger shows what is missing.
    """

    def excess(factor: float) -> float:
        return noise_multiplier(scenario, link.with_device_noise(factor).link_budget()) / target - 1

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
        if high > MOST_OWN_NOISE:
            return None
    low = high / 2 if high > 1 else 0.0
    return float(brentq(excess, low, high, xtol=OWN_NOISE_ACCURACY)) + OWN_NOISE_ACCURACY
