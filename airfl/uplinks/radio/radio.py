"""The radio of a run, built from its sections of the settings: topology, fading, CSI, and units."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from airfl.config.radio_sections import RadioSections
from airfl.runtime.streams import Purpose, Streams
from airfl.selection import Ids
from airfl.uplinks.radio.laws import bounds_factor, fading_law, k_factors, replay_of, statistics_of
from airfl.uplinks.radio.own import check_shape, own_mean_power, own_response
from airfl.uplinks.radio.parts import (
    base_height_m,
    cell_of,
    directions_of,
    grid_of,
    impairment_draws,
    noise_std_of,
    prefix_s,
    settings_of,
    surroundings_of,
    waveform_of,
    whole_population,
)
from airfl.uplinks.uplink import PilotCost
from channels.antennas import Directions, correlation_roots, steering_turns
from channels.csi import ChannelState, Imperfections, Knowledge, LineOfSight, Surroundings, impair, perfect_knowledge
from channels.draws import Complex, Draw, correlate
from channels.fading import (
    VARIATIONS,
    ChannelRequest,
    FadeStatistics,
    Fading,
    FadingLaw,
    FlatParts,
    OwnChannel,
    Replay,
    SelectiveFading,
    flat_parts,
    keep_within,
    line_of_sight_cosines,
    line_of_sight_turns,
    rician_mean_square,
    rician_parts,
)
from channels.frame import Frame
from channels.grid import OfdmaGrid
from channels.part import is_built_in
from channels.power import draw_max_snr, power_limits
from channels.selective import SelectiveRequest
from channels.selective.cdl import Cdl
from channels.selective.late import late_paths, take_late
from channels.selective.scenario import Scenario
from channels.selective.sionna_bridge import check_version
from channels.selective.tapped_line import TappedLine
from channels.selective.tdl import Tdl
from channels.topology import Drop, drop
from channels.units import db_to_linear, linear_to_db, subcarrier_power_w
from channels.waveform_channel import Multipath

if TYPE_CHECKING:
    from channels.selective.request import Variation
    from channels.waveform import Waveform

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Radio:
    """The radio of all devices, which stays the same in all rounds.

    Attributes:
        sections: The sections of the settings that it is built from.
        devices: N, number of devices.
        streams: Random number streams of the run.
        grid: Resource elements and their durations.
        noise_std: sigma_0, standard deviation of the receiver noise on a real entry, in normalised units or sqrt(W).
        drop: Positions of the devices; None without a topology.
        law: Law of flat fading; None for replayed or selective channels, and if every device has its own K.
        k_factors: K of every device's Rician law, linear, [N]; None if devices do not have their own K.
        replay: Recorded gains; None if the channel is drawn.
        fades: Statistics of the bounded fading; None if they are unknown or differ between devices.
        scale: Mean |h| of flat laws, root mean square |h| of selective models, before bounds, [N].
        mean_power: E|h|^2 within the bounds, [N]; before them for Sionna's models, as their law is unknown.
        directions: Directions of the devices from the antennas, [N]; None for one antenna, where they have no effect.
    """

    sections: RadioSections
    devices: int
    streams: Streams
    grid: OfdmaGrid
    noise_std: float
    drop: Drop | None
    law: FadingLaw | None
    k_factors: Array | None
    replay: Replay | None
    fades: FadeStatistics | None
    scale: Array
    mean_power: Array
    directions: Directions | None = None

    @property
    def physical(self) -> bool:
        """Whether powers are in W and energies in J."""
        return self.sections.channel.units == "physical"

    @property
    def energy_unit(self) -> float:
        """Energy of a resource element with unit power: 1, or the symbol duration in s."""
        return self.grid.mean_symbol_s if self.physical else 1.0

    @property
    def fading(self) -> Fading:
        """The fading model of the channel."""
        return self.sections.channel.fading_model

    @property
    def selective(self) -> bool:
        """Whether the channel differs between subcarriers, before offsets."""
        return self.fading.selective

    @property
    def changes_within_a_round(self) -> bool:
        """Whether the channel changes while devices send, because they move.

        Of flat channels, only Jakes' model follows the movement; a replayed channel has one gain per round.
        """
        channel = self.sections.channel
        if isinstance(self.fading, OwnChannel):
            return self.fading.moves
        if self.replay is not None:
            return False
        follows = channel.variation != "constant" if self.selective else channel.variation == "jakes"
        return channel.speed_m_s > 0 and follows

    @cached_property
    def csi(self) -> Imperfections:
        """The imperfections of the CSI."""
        return self.sections.csi.imperfections

    @cached_property
    def around(self) -> Surroundings:
        """The parameters of channel and grid that impairments depend on."""
        return surroundings_of(self.sections.channel, self.grid)

    def power_limits(self, dimension: int, entries: int) -> Array:
        """Return P_i, the energy of a whole uncompressed update at the device's limit, divided by the energy unit, [N].

        Args:
            dimension: d, number of model parameters.
            entries: In physical units only, the entries of the message whose elements share a device's power if these
                are fewer than the used subcarriers; d if every message leaves its share of the band unused.
        """
        power = self.sections.power
        uniforms = self.streams.generator(Purpose.POWER_LIMIT).random(self.devices)
        allowed = power.tx_power_dbm if self.physical else power.max_snr_db
        ratio = draw_max_snr(
            uniforms, (allowed[0], allowed[1]) if isinstance(allowed, list) else allowed, power.spacing
        )
        if not self.physical:
            return power_limits(ratio, dimension, self.noise_std)
        elements = self.grid.elements_for(entries)
        used = min(self.grid.used_subcarriers, elements)
        # The message has entries/d of this energy, which is the power of its own elements.
        return subcarrier_power_w(linear_to_db(ratio), used) * (elements * dimension / entries)

    def frame(self, entries: int) -> Frame:
        """Return the resource elements of a message, in blocks over which the channel is held constant."""
        whole = self.grid.frame(entries, 1).symbols
        if self.csi.frequency.frequency_offset_hz and self.waveform is None:
            return self.grid.frame(entries, 1)
        if not self.changes_within_a_round:
            return self.grid.frame(entries, whole)
        coherence = self.sections.channel.coherence
        symbols = {"round": whole, "slot": self.grid.symbols_per_slot, "symbol": 1}[coherence]
        return self.grid.frame(entries, min(symbols, whole))

    def channel(self, round_index: int, devices: Ids, frame: Frame) -> ChannelState:
        """Return the true channel of these devices, before offsets."""
        return self._channel(round_index, devices, frame)[0]

    def _channel(
        self, round_index: int, devices: Ids, frame: Frame
    ) -> tuple[ChannelState, NDArray[np.complex128] | None]:
        """Return the same and its line-of-sight part, with the axes of the response; None if that part is unknown."""
        if self.replay is not None:
            return ChannelState(self.replay.at(round_index, devices)[:, :, None, None]), None
        if isinstance(self.fading, OwnChannel):
            request = self._own_request(round_index, devices, frame)
            return ChannelState(own_response(self.fading, request)), None
        if self.selective:
            return self._selective(round_index, devices, frame), None
        found, sight = self._flat(round_index, devices, frame)
        antennas = self.sections.antennas.count
        axes = (len(devices), antennas, found.shape[1] // antennas, 1)
        gains = ChannelState(np.asarray(found.reshape(axes)))
        return gains, None if sight is None else np.broadcast_to(sight, found.shape).reshape(axes)

    def know(self, round_index: int, devices: Ids, frame: Frame, element_power: Array) -> Knowledge:
        """Return the true and the estimated channel of these devices.

        element_power: power of these devices on a resource element of data, and also of a pilot unless csi.pilot_snr_db
        is set.
        """
        state, sight = self._channel(round_index, devices, frame)
        noise = 2 * self.noise_std**2 / self.pilot_energy(element_power)
        knowledge = perfect_knowledge(
            state,
            self.mean_power[devices],
            noise,
            self._line_of_sight(sight, round_index, devices),
            self._spatial_roots(devices),
        )
        csi = self.csi if self.waveform is None else self.csi.beside_a_waveform
        return impair(knowledge, csi, self.around, frame, impairment_draws(self.streams, round_index, devices))

    def pilot_energy(self, element_power: Array) -> Array:
        """Return the energy of one pilot, divided by the energy unit, [devices]."""
        snr = self.csi.estimation.pilot_snr_db
        if snr is None:
            return element_power
        return np.full(len(element_power), float(db_to_linear(snr)) * self.noise_std**2)

    def pilots(self, shape: tuple[int, ...], estimated: Ids, rows: Ids, element_power: Array) -> PilotCost:
        """Return the cost of the pilots.

        Args:
            shape: Shape of a response.
            estimated: Ids of the devices whose channel was estimated.
            rows: Positions of the selected devices in `estimated`.
            element_power: Power on a resource element of data, [N].
        """
        elements, sent = self.csi.estimation.pilots_charged(len(estimated), int(np.prod(shape[2:])))
        energy = sent * self.pilot_energy(element_power[estimated]) * self.energy_unit
        return PilotCost(elements, energy[rows], float(energy.sum() - energy[rows].sum()) if elements else 0.0)

    def response_shape(self, frame: Frame) -> tuple[int, int]:
        """Return the numbers of blocks and subcarriers over which a device's channel differs, before offsets."""
        return frame.blocks if self.changes_within_a_round else 1, frame.subcarriers if self.selective else 1

    def observed_shape(self, frame: Frame) -> tuple[int, int]:
        """Return the numbers of blocks and subcarriers over which a device's channel differs, after offsets."""
        blocks, subcarriers = self.response_shape(frame)
        if self.waveform is None and self.csi.frequency.frequency_offset_hz:
            blocks = frame.blocks
        if self.waveform is None and self.csi.timing.timing_offset_s:
            subcarriers = frame.subcarriers
        return blocks, subcarriers

    @cached_property
    def waveform(self) -> Waveform | None:
        """The waveform that carries the entries; None if no waveform is simulated."""
        return waveform_of(self.sections.grid)

    def multipath(self, round_index: int, devices: Ids, frame: Frame) -> Multipath | None:
        """Return the taps and offsets behind the response, on the sample grid; None if no waveform is simulated."""
        if self.waveform is None:
            return None
        rate_hz = self.waveform.fft_size * self.grid.spacing_hz
        taps, delays = self._taps(round_index, devices, frame, rate_hz)
        draws = impairment_draws(self.streams, round_index, devices)
        late = self.csi.timing.timing_offset_s * draws["timing"](1)[:, 0]
        offset_hz = self.csi.frequency.frequency_offset_hz * (2 * draws["frequency"](1)[:, 0] - 1)
        return Multipath(taps, delays, np.round(late * rate_hz).astype(np.int64), offset_hz / self.grid.spacing_hz)

    def _taps(
        self, round_index: int, devices: Ids, frame: Frame, rate_hz: float
    ) -> tuple[NDArray[np.complex128], NDArray[np.int64]]:
        if isinstance(self.fading, TappedLine):
            taps, delays_s = self.fading.coefficients(self._request(round_index, devices, frame))
            return self.scale[devices, None] * taps[:, 0, 0], np.round(delays_s * rate_hz).astype(np.int64)
        state = self.channel(round_index, devices, frame)
        return np.asarray(state.response[:, 0, 0, :], dtype=np.complex128), np.zeros(1, dtype=np.int64)

    def _flat(self, round_index: int, devices: Ids, frame: Frame) -> FlatParts:
        """Return the gains and their line-of-sight part, [devices, antennas x blocks], with blocks innermost."""
        channel, antennas = self.sections.channel, self.sections.antennas.count
        fresh, lasting = self._draws(round_index, devices)
        within_s = frame.block_times_s if channel.variation == "jakes" else np.zeros(1)
        times_s = round_index * channel.round_s + within_s
        diffuse = VARIATIONS[channel.variation](fresh, lasting, antennas, self.around.doppler_hz, times_s)
        roots, steering = self._spatial_roots(devices), None
        if roots is not None:
            diffuse = correlate(roots, diffuse)
        if self.directions is not None:
            steering = steering_turns(self.sections.antennas.geometry, self.directions.take(devices))
            steering = np.repeat(steering, len(within_s), axis=1)
        diffuse = diffuse.reshape(len(devices), antennas * len(within_s))
        turns = np.zeros((len(devices), 1))
        if self.law is None or self.law.line_of_sight > 0:
            turns = line_of_sight_turns(channel.variation, fresh, lasting, antennas)[:, None]
            if channel.variation == "jakes":  # the line of sight moves with the diffuse paths
                shifts_hz = self._line_of_sight_doppler_hz(round_index, devices)
                turns = np.tile(turns + shifts_hz[:, None] * times_s, antennas)
        if self.law is None:
            assert self.k_factors is not None
            turns = turns if steering is None else turns + steering
            return rician_parts(self.k_factors[devices], diffuse, turns, np.sqrt(self.mean_power[devices]))
        limits = (0.0, np.inf) if self.physical else (channel.min_gain, channel.max_gain)
        return flat_parts(
            self.law,
            diffuse,
            turns,
            scale=self.scale[devices],
            min_gain=limits[0],
            max_gain=limits[1],
            bounds=channel.bounds,
            steering=steering,
        )

    def _spatial_roots(self, devices: Ids) -> Complex | None:
        """Return square roots of the diffuse part's correlation between antennas, [devices, antennas, antennas].

        None if the antennas are independent, or their gains are recorded.
        """
        correlation = self.sections.antennas.diffuse_correlation
        if self.directions is None or self.replay is not None or correlation.kind == "independent":
            return None
        return correlation_roots(self.sections.antennas.geometry, correlation, self.directions.take(devices))

    def _line_of_sight(self, part: NDArray[np.complex128] | None, round_index: int, devices: Ids) -> LineOfSight | None:
        """Return the line of sight as channel ageing needs it; None if its part of the channel is not given."""
        if part is None:
            return None
        if self.k_factors is not None:
            share = self.k_factors[devices] / (self.k_factors[devices] + 1)
        else:
            assert self.law is not None
            share = np.full(len(devices), 1.0 if self.law.constant else self.law.line_of_sight)
        return LineOfSight(part, part, share, self._line_of_sight_doppler_hz(round_index, devices))

    def _line_of_sight_doppler_hz(self, round_index: int, devices: Ids) -> Array:
        """Return f_D cos(theta), [devices], with theta the angle between a device's motion and its line of sight."""
        fresh, lasting = self._draws(round_index, devices)
        cosines = line_of_sight_cosines(self.sections.channel.variation, fresh, lasting, self.sections.antennas.count)
        return np.asarray(self.around.doppler_hz * cosines)

    def _selective(self, round_index: int, devices: Ids, frame: Frame) -> ChannelState:
        channel = self.sections.channel
        request = self._request(round_index, devices, frame)
        if self.waveform is not None:
            from channels.waveform import response

            rate_hz = self.waveform.fft_size * self.grid.spacing_hz
            taps, delays = self._taps(round_index, devices, frame, rate_hz)
            found = response(taps, delays, self.waveform)[:, None, None, : frame.subcarriers]
            request = replace(request, prefix_s=self.waveform.prefix_samples / rate_hz)
            late = (late_paths(row[None, None], delays / rate_hz, request) for row in taps)
            return ChannelState(found, take_late(found, late))
        assert isinstance(self.fading, SelectiveFading)
        small = self.fading.respond(request)
        if not is_built_in(self.fading):
            wanted = (len(devices), request.antennas, request.blocks, frame.subcarriers)
            check_shape(self.fading, round_index, small.response, wanted)
        scale = self.scale[devices, None, None].astype(np.float32)
        faded, spilled = small.response, small.spilled
        faded *= scale[..., None]
        if not self.physical:
            keep_within(faded, channel.min_gain, channel.max_gain)
        return ChannelState(faded, None if spilled is None else spilled * scale**2)

    def _request(self, round_index: int, devices: Ids, frame: Frame) -> SelectiveRequest:
        channel = self.sections.channel
        fresh, lasting = self._draws(round_index, devices)
        request = SelectiveRequest(
            frame=frame,
            antennas=self.sections.antennas.count,
            carrier_hz=channel.carrier_hz,
            speed_m_s=channel.speed_m_s,
            variation=cast("Variation", channel.variation),
            start_s=round_index * channel.round_s,
            fresh=fresh,
            lasting=lasting,
            prefix_s=prefix_s(self.grid),
            spacing_hz=self.grid.spacing_hz,
            bandwidth_hz=self.grid.used_subcarriers * self.grid.spacing_hz,
            array=self.sections.antennas.geometry,
            directions=None if self.directions is None else self.directions.take(devices),
            broadside_rad=math.radians(self.sections.antennas.broadside_deg),
            spatial_roots=self._spatial_roots(devices),
        )
        if self.drop is None:
            return request
        return replace(
            request,
            positions_m=self.drop.positions_m[devices],
            base_height_m=base_height_m(channel, self.sections.topology),
            line_of_sight=self.drop.line_of_sight[devices],
        )

    def _own_request(self, round_index: int, devices: Ids, frame: Frame) -> ChannelRequest:
        fresh, lasting = self._draws(round_index, devices)
        start_s = round_index * self.sections.channel.round_s
        antennas = self.sections.antennas.count
        return ChannelRequest(round_index, devices, antennas, frame, start_s, fresh, lasting)

    def _draws(self, round_index: int, devices: Ids) -> tuple[Draw, Draw]:
        """Return the random draws of this round, and those of the whole run."""
        return (
            lambda count: self.streams.device_uniforms(Purpose.FADING, round_index, devices, count),
            lambda count: self.streams.device_uniforms(Purpose.FADING, None, devices, count),
        )


def build_radio(sections: RadioSections, streams: Streams, *, devices: int, rounds: int) -> Radio:
    """Build the radio of a run with these numbers of devices and rounds.

    Raises UserError if no radio can be built from the settings.
    """
    channel, topology, antennas = sections.channel, sections.topology, sections.antennas
    law, placed = fading_law(channel, topology), None
    replay = replay_of(channel, rounds=rounds, devices=devices, antennas=antennas.count)
    own_k: Array | None = None
    mean_square: float | Array = law.mean_square if law else 1.0
    fading = channel.fading_model
    if isinstance(fading, (Tdl, Cdl, Scenario)):
        with settings_of("channel.tr38901_version"):
            check_version(fading.tr38901_version)
    scale = np.full(devices, channel.mean_gain)
    if topology.kind != "none":
        with settings_of("topology"):
            placed = drop(cell_of(channel, topology), whole_population(streams, Purpose.TOPOLOGY, devices))
            own_k = k_factors(channel, topology, placed)
        if own_k is not None:
            mean_square = rician_mean_square(own_k)
        scale = placed.amplitude / np.sqrt(mean_square)  # a path gain is a power ratio, so fading has unit mean power
    mean_power = scale**2 * mean_square * bounds_factor(sections)
    if replay is not None:
        mean_power = replay.mean_power
    radio = Radio(
        sections=sections,
        devices=devices,
        streams=streams,
        grid=grid_of(sections.grid),
        noise_std=noise_std_of(channel, sections.grid),
        drop=placed,
        law=law,
        k_factors=own_k,
        replay=replay,
        fades=statistics_of(sections),
        scale=scale,
        mean_power=mean_power,
        directions=directions_of(antennas, devices, streams, placed) if antennas.count > 1 else None,
    )
    if not isinstance(fading, OwnChannel):
        return radio
    band = radio.frame(2 * radio.grid.used_subcarriers)
    return replace(
        radio,
        mean_power=own_mean_power(fading, devices, rounds, lambda index, ids: radio.channel(index, ids, band).response),
    )
