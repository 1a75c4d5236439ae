"""The radio of a run, built from its sections of the settings: what is known of the channels, powers, and pilots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from airfl.config.radio_sections import RadioSections
from airfl.runtime.streams import Purpose, Streams
from airfl.selection import Ids
from airfl.uplinks.radio.laws import (
    bounds_factor,
    check_carrier,
    fading_law,
    k_factors,
    measured_of,
    replay_of,
    statistics_for_power,
)
from airfl.uplinks.radio.obstacles import Obstacles, obstacles_of
from airfl.uplinks.radio.own import own_mean_power
from airfl.uplinks.radio.parts import (
    directions_of,
    grid_of,
    impairment_draws,
    moving_devices,
    noise_std_of,
    placed_devices,
    settings_of,
)
from airfl.uplinks.radio.reflected import Reflections
from airfl.uplinks.radio.true_channels import TrueChannels
from airfl.uplinks.uplink import PilotCost
from channels.antennas import Directions
from channels.csi import ChannelInformation, ChannelState, Imperfections, impair, perfect_csi
from channels.csi.measured import MeasuredErrors
from channels.csi.synchronisation import NUMBERS
from channels.draws import Complex
from channels.fading import FadeStatistics, FadingLaw, OwnChannel, rician_mean_square
from channels.frame import Frame
from channels.part import is_built_in
from channels.power import draw_max_snr, power_limits
from channels.selective.cdl import Cdl
from channels.selective.scenario import Tr38901Scenario
from channels.selective.sionna_bridge import check_blockage, check_large_scale, check_version
from channels.selective.tdl import Tdl
from channels.surface import Surface
from channels.topology import Drop, Moving
from channels.units import db_to_linear, linear_to_db, subcarrier_power_w
from channels.waveform_channel import Multipath

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Radio(TrueChannels):
    """The radio of all devices, which stays the same in all rounds: their channels, what is known of them, and powers.

    Attributes:
        noise_std: sigma_0, standard deviation of the receiver noise on a real entry, in normalised units or sqrt(W).
        fades: Statistics of the fading that the power policy goes by; None if they are unknown or differ between
            devices.
        pilots_at_once: Whether the devices send their pilots at once, so that the receiver estimates only the sum of
            their channels, as it suffices if no device knows its channel.
        measured: Measured synchronisation errors; None if there is no file of them.
        round_index: The round whose places, path losses and K factors these are, if devices or blockers move; None for
            those of the start, which `at` replaces.
    """

    noise_std: float
    fades: FadeStatistics | None
    pilots_at_once: bool = False
    measured: MeasuredErrors | None = None
    round_index: int | None = None

    def at(self, round_index: int) -> Self:
        """Return the radio with the places of a round: this one if devices, and blockers of lines of sight, stay at
        theirs."""
        blocked_anew = self.obstacles is not None and self.obstacles.moving and not self.selective
        if (self.moving is None and not blocked_anew) or self.round_index == round_index:
            return self
        if round_index not in self._latest:
            sections, time_s = self.sections, round_index * self.sections.channel.round_s
            with settings_of("topology"):
                placed = self.drops if self.moving is None else (self.moving.at(time_s),)
                found = of_places(sections, self.law, placed, self.devices, self.streams, self.obstacles, time_s)
            for oldest in list(self._latest)[:-1]:  # the latest is still to be recorded if this one is planned ahead
                del self._latest[oldest]
            self._latest[round_index] = replace(self, round_index=round_index, drops=placed, **found)
        return self._latest[round_index]

    @cached_property
    def _latest(self) -> dict[int, Self]:
        """The two rounds that were made last, by their numbers, the older one first."""
        return {}

    @property
    def energy_unit(self) -> float:
        """Energy of a resource element with unit power: 1, or the symbol duration in s."""
        return self.grid.mean_symbol_s if self.physical else 1.0

    @cached_property
    def imperfections(self) -> Imperfections:
        """The imperfections of the CSI."""
        return self.sections.csi.imperfections

    @cached_property
    def surface(self) -> Surface:
        """The surface between the devices and the base station."""
        return self.sections.surface.surface

    @cached_property
    def reflections(self) -> Reflections | None:
        """The paths over a surface, None without one."""
        surface, channel = self.surface, self.sections.channel
        if not surface.elements:
            return None
        antennas = self.sections.antennas.count
        return Reflections(surface, self.streams, antennas, channel.variation, self.around.doppler_hz)

    @cached_property
    def one_by_one(self) -> bool:
        """Whether the channel of a device, and what is known of it, do not depend on which other devices are asked for:
        for laws and recordings of the package without pilots that are sent at once and without a surface."""
        return not self.pilots_at_once and self.reflections is None and is_built_in(self.fading)

    @property
    def silent(self) -> bool:
        """Whether some devices may take no part in some rounds: they have no path, are in outage, or miss the
        trigger."""
        missed = self.imperfections.synchronisation.missed_probability > 0
        return super().silent or missed or (self.measured is not None and self.measured.silent)

    def power_limits(self, dimension: int, entries: int, elements: int) -> Array:
        """Return P_i, the energy of a whole uncompressed update at the device's limit, divided by the energy unit, [N].

        Args:
            dimension: d, number of model parameters.
            entries: In physical units only, the entries of the message whose elements share a device's power; d if
                every message leaves its share of the band unused.
            elements: In physical units only, the resource elements that share a device's power if these are fewer than
                the used subcarriers.
        """
        power = self.sections.power
        uniforms = self.streams.generator(Purpose.POWER_LIMIT).random(self.devices)
        allowed = power.tx_power_dbm if self.physical else power.max_snr_db
        ratio = draw_max_snr(
            uniforms, (allowed[0], allowed[1]) if isinstance(allowed, list) else allowed, power.spacing
        )
        if not self.physical:
            return power_limits(ratio, dimension, self.noise_std)
        used = min(self.grid.used_subcarriers, elements)
        # The message has entries/d of this energy, which is the power of its own elements.
        return subcarrier_power_w(linear_to_db(ratio), used) * (self.grid.elements_for(entries) * dimension / entries)

    def frame(self, entries: int) -> Frame:
        """Return the resource elements of a message, in blocks over which the channel is held constant."""
        whole = self.grid.frame(entries, 1).symbols
        if self._turns:
            return self.grid.frame(entries, 1)
        if not self.changes_within_a_round:
            return self.grid.frame(entries, whole)
        coherence = self.sections.channel.coherence
        symbols = {"round": whole, "slot": self.grid.symbols_per_slot, "symbol": 1}[coherence]
        return self.grid.frame(entries, min(symbols, whole))

    @property
    def _turns(self) -> bool:
        """Whether a device's phase changes from symbol to symbol, other than in a simulated waveform."""
        imperfections = self.imperfections
        turning = imperfections.frequency.frequency_offset_hz or imperfections.oscillator.on
        moving = self.measured is not None and self.measured.replay.moves
        return bool(turning or moving) and self.waveform is None

    def csi_of(self, round_index: int, devices: Ids, frame: Frame, element_power: Array) -> ChannelInformation:
        """Return the true and the estimated channel of these devices, as `reached` does; each must have a channel."""
        reached, csi = self.reached(round_index, devices, frame, element_power)
        assert len(reached) == len(devices)
        return csi

    def reached(
        self, round_index: int, devices: Ids, frame: Frame, element_power: Array
    ) -> tuple[NDArray[np.int64], ChannelInformation]:
        """Return which of these devices have a channel, as ascending rows, and their true and estimated channels.

        A device without a path, or in outage, has none, and one that misses the trigger takes no part: they neither
        hear a request for pilots nor send one.

        element_power: power of these devices on a resource element of data, and also of a pilot unless csi.pilot_snr_db
        is set.

        If pilots are sent at once, the noise N_0 on the estimate of sum_i h_i is divided among the devices in
        proportion to their mean powers. The sum of their estimates then has the law of the estimate of the sum, under
        "mmse" too, and nothing else may be taken from it.
        """
        here = self.at(round_index)
        if here is not self:
            return here.reached(round_index, devices, frame, element_power)
        state, sight = self._channel(round_index, devices, frame)
        measured = self._measured(round_index, devices, frame)
        present = self._present(state, measured, round_index, devices)
        rows = np.flatnonzero(present)
        if len(rows) < len(devices):
            devices, element_power = devices[rows], element_power[rows]
            state = state.take(rows)
            sight = None if sight is None else sight[rows]
            measured = None if measured is None else measured[rows]
        mean_power = self.mean_power[devices]
        noise = 2 * self.noise_std**2 / self.pilot_energy(element_power)
        if self.reflections is not None:
            state, sight = self._reflected(self.reflections, state, round_index, devices, frame, element_power), None
        if self.pilots_at_once:
            noise *= mean_power / mean_power.sum()
        csi = perfect_csi(
            state,
            mean_power,
            noise,
            self._line_of_sight(sight, round_index, devices),
            self._spatial_roots(devices),
            None if self.point_power is None else self.of_antennas(self.point_power[devices]),
        )
        imperfections = self.imperfections if self.waveform is None else self.imperfections.beside_a_waveform
        return rows, impair(
            csi,
            imperfections,
            self._around_of(round_index, devices),
            frame,
            impairment_draws(self.streams, round_index, devices),
            measured,
        )

    def _reflected(
        self,
        reflections: Reflections,
        state: ChannelState,
        round_index: int,
        devices: Ids,
        frame: Frame,
        element_power: Array,
    ) -> ChannelState:
        """Return the channels with the paths over the surface."""
        surface, estimation, noise_energy = reflections.surface, self.imperfections.estimation, 2 * self.noise_std**2
        training_noise = None
        if estimation.method != "perfect":  # of all M + 1 gains together, from M + 1 orthogonal patterns of phases
            training = estimation.pilots * (surface.elements + 1)
            training_noise = noise_energy / self.pilot_energy(element_power) / training
        return reflections.added(
            state,
            round_index,
            devices,
            self._times_s(round_index, frame),
            self.direct_power[devices],
            element_power,
            noise_energy,
            training_noise,
        )

    def _measured(self, round_index: int, devices: Ids, frame: Frame) -> Complex | None:
        """Return the measured residual gains of a round, 0 for devices that missed the trigger; None without a file."""
        if self.measured is None:
            return None
        draw = impairment_draws(self.streams, round_index, devices)["synchronisation"]
        with self.reading("csi.residual_file", self.imperfections.synchronisation.file):
            return self.measured.gains(round_index, devices, frame, draw(NUMBERS)[:, 3])

    def _present(
        self, state: ChannelState, measured: Complex | None, round_index: int, devices: Ids
    ) -> NDArray[np.bool_]:
        """Return which devices take part in a round, [devices]: all that have a path and hear the trigger."""
        present = np.ones(len(devices), dtype=bool)
        if not self.fading.drawn:  # a drawn channel is never 0
            present &= state.response.any(axis=(1, 2, 3))
        if measured is not None:
            present &= measured.any(axis=(1, 2, 3))
        errors = self.imperfections.synchronisation
        if errors.missed_probability:
            present &= ~errors.missed(impairment_draws(self.streams, round_index, devices)["synchronisation"])
        return present

    def check_recording(self, frame: Frame) -> None:
        """Check that recorded channels and measured errors cover the resource elements of a message; raises UserError
        otherwise."""
        if self.replay is not None:
            with self.reading():
                self.replay.check(frame, self.grid.used_subcarriers, self.grid.spacing_hz)
        if self.measured is not None:
            with self.reading("csi.residual_file", self.imperfections.synchronisation.file):
                self.measured.replay.check(frame, self.grid.used_subcarriers, self.grid.spacing_hz)

    def pilot_energy(self, element_power: Array) -> Array:
        """Return the energy of one pilot, divided by the energy unit, [devices]. Pilots that are sent at once have one
        energy, the smallest, so that the channels are summed with equal weights."""
        snr = self.imperfections.estimation.pilot_snr_db
        if snr is None:
            return (
                np.full_like(element_power, np.min(element_power))
                if self.pilots_at_once and len(element_power)
                else element_power
            )
        return np.full(len(element_power), float(db_to_linear(snr)) * self.noise_std**2)

    def pilots(self, shape: tuple[int, ...], estimated: Ids, rows: Ids, element_power: Array) -> PilotCost:
        """Return the cost of the pilots.

        Args:
            shape: Shape of a response.
            estimated: Ids of the devices whose channel was estimated.
            rows: Positions of the selected devices in `estimated`.
            element_power: Power on a resource element of data, [N].
        """
        coefficients, estimation = math.prod(shape[2:]), self.imperfections.estimation
        orthogonal = min(len(estimated), 1) if self.pilots_at_once else len(estimated)
        elements, sent = estimation.pilots_charged(orthogonal, coefficients)
        surface = self.surface
        if surface.follows_channels:  # each device's gains over every element and without the surface, by its pilots
            training = estimation.pilots_charged(len(estimated), surface.elements + 1)
            elements, sent = elements + training[0], sent + training[1]
        energy = sent * self.pilot_energy(element_power[estimated]) * self.energy_unit
        return PilotCost(elements, energy[rows], float(energy.sum() - energy[rows].sum()) if elements else 0.0)

    def most_pilot_energy(self, shape: tuple[int, ...], element_power: Array) -> Array:
        """Return the most energy that a round's pilots may take from each device, whoever sends with it, [devices].

        Args:
            shape: Shape of a response.
            element_power: Power of the devices on a resource element of data, [devices].
        """
        each = replace(self, pilots_at_once=False)
        everyone = np.arange(len(element_power))
        return each.pilots(shape, everyone, everyone, element_power).energy

    def observed_shape(self, frame: Frame) -> tuple[int, int]:
        """Return the numbers of blocks and subcarriers over which a device's channel differs, after offsets."""
        blocks, subcarriers = self.response_shape(frame)
        if self._turns:
            blocks = frame.blocks
        spread = self.measured is not None and self.measured.replay.selective
        if self.waveform is None and (self.imperfections.timing.timing_offset_s or spread):
            subcarriers = frame.subcarriers
        return blocks, subcarriers

    def multipath(self, round_index: int, devices: Ids, frame: Frame) -> Multipath | None:
        """Return the taps and offsets behind the response, on the sample grid; None if no waveform is simulated."""
        if self.waveform is None:
            return None
        rate_hz = self.waveform.fft_size * self.grid.spacing_hz
        taps, delays = self._taps(round_index, devices, frame, rate_hz)
        draws = impairment_draws(self.streams, round_index, devices)
        late = self.imperfections.timing.timing_offset_s * draws["timing"](1)[:, 0]
        offset_hz = self.imperfections.frequency.frequency_offset_hz * (2 * draws["frequency"](1)[:, 0] - 1)
        return Multipath(taps, delays, np.round(late * rate_hz).astype(np.int64), offset_hz / self.grid.spacing_hz)


def build_radio(
    sections: RadioSections, streams: Streams, *, devices: int, rounds: int, pilots_at_once: bool = False
) -> Radio:
    """Build the radio of a run with these numbers of devices and rounds.

    pilots_at_once: whether the receiver estimates only the sum of the channels, see `Radio`.

    Raises UserError if no radio can be built from the settings.
    """
    channel, topology = sections.channel, sections.topology
    moved = moving_devices(channel, topology, devices=devices, rounds=rounds, streams=streams)
    if moved is None:
        placed = placed_devices(channel, topology, devices=devices, streams=streams)
    else:
        with settings_of("topology"):
            placed = (moved.at(0.0),)
    return radio_at(
        sections, streams, placed, devices=devices, rounds=rounds, pilots_at_once=pilots_at_once, moved=moved
    )


def radio_at(
    sections: RadioSections,
    streams: Streams,
    placed: tuple[Drop, ...],
    *,
    devices: int,
    rounds: int,
    pilots_at_once: bool = False,
    moved: Moving | None = None,
) -> Radio:
    """Build the radio of devices with these places, see `build_radio`.

    placed: () without a topology; moved: the devices over time, None if they stay at these places.
    """
    channel, topology, antennas = sections.channel, sections.topology, sections.antennas
    law = fading_law(channel, topology, sections.blockage)
    replay = replay_of(channel, rounds=rounds, devices=devices, antennas=antennas.count, streams=streams)
    if replay is not None:
        check_carrier(sections, replay.carrier_hz)
    fading = channel.fading_model
    if isinstance(fading, (Tdl, Cdl, Tr38901Scenario)):
        with settings_of("channel.tr38901_version"):
            check_version(fading.tr38901_version, fading.scenario if isinstance(fading, Tr38901Scenario) else None)
    if isinstance(fading, Tr38901Scenario) and fading.large_scale == "drop":
        with settings_of("channel.large_scale"):
            check_large_scale()
    if isinstance(fading, Tr38901Scenario) and sections.blockage.model != "none":
        with settings_of("blockage.model"):
            check_blockage()
    obstacles = obstacles_of(sections, streams, moved)
    with settings_of("topology"):
        found = of_places(sections, law, placed, devices, streams, obstacles)
    if replay is not None:
        found["mean_power"] = replay.mean_power
    radio = Radio(
        sections=sections,
        devices=devices,
        streams=streams,
        grid=grid_of(sections.grid),
        noise_std=noise_std_of(channel, sections.grid),
        drops=placed,
        law=law,
        replay=replay,
        fades=statistics_for_power(sections),
        moving=moved,
        obstacles=obstacles,
        **found,
        pilots_at_once=pilots_at_once,
        measured=measured_of(sections.csi.imperfections, rounds=rounds, devices=devices, streams=streams),
    )
    if not isinstance(fading, OwnChannel):
        return radio
    band = radio.frame(2 * radio.grid.used_subcarriers)
    return replace(
        radio,
        mean_power=own_mean_power(fading, devices, rounds, lambda index, ids: radio.channel(index, ids, band).response),
    )


class OfPlaces(TypedDict):
    """The attributes of a radio that follow from the places of the devices, see `TrueChannels`."""

    k_factors: Array | None
    scale: Array
    mean_power: Array
    point_power: Array | None
    directions: tuple[Directions, ...]


def of_places(
    sections: RadioSections,
    law: FadingLaw | None,
    placed: tuple[Drop, ...],
    devices: int,
    streams: Streams,
    obstacles: Obstacles | None = None,
    time_s: float = 0.0,
) -> OfPlaces:
    """Return the attributes of a radio that follow from the places of the devices, and from what blocks their lines of
    sight at a time in s since the start of the run."""
    channel, topology, antennas = sections.channel, sections.topology, sections.antennas
    own_k: Array | None = None
    mean_square: float | Array = law.mean_square if law else 1.0
    scale = np.full(devices, channel.mean_gain)
    if placed:
        own_k = _of_points([k_factors(channel, topology, sections.blockage, one) for one in placed])
        amplitude = _of_points([one.amplitude for one in placed])
        assert amplitude is not None
        if own_k is not None and obstacles is not None:
            left = _of_points(obstacles.left_in_sight(placed, time_s))
            assert left is not None
            amplitude = amplitude * np.sqrt((left * own_k + 1) / (own_k + 1))  # the diffuse part keeps its power
            own_k = left * own_k
        if own_k is not None:
            mean_square = rician_mean_square(own_k)
        scale = amplitude / np.sqrt(mean_square)  # a path gain is a power ratio, so fading has unit mean power
    mean_power, point_power = scale**2 * mean_square * bounds_factor(sections), None
    if mean_power.ndim == 2:
        mean_power, point_power = mean_power.mean(axis=1), mean_power
    if sections.surface.elements:
        mean_power = mean_power * sections.surface.surface.mean_power_factor
    directions = tuple(
        directions_of(antennas, devices, streams, one) for one in (placed or (None,)) if antennas.count > 1
    )
    return {
        "k_factors": own_k,
        "scale": scale,
        "mean_power": mean_power,
        "point_power": point_power,
        "directions": directions,
    }


def _of_points(values: Sequence[Array | None]) -> Array | None:
    """Return values of devices at each access point, [N, points], or [N] if there is one; None if any is missing."""
    if len(values) == 1:
        return values[0]
    given = [one for one in values if one is not None]
    return np.stack(given, axis=1) if len(given) == len(values) else None
