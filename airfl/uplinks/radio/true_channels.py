"""The true channels of all devices: what holds for all rounds, and the draw of a round from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

from airfl.config.radio_sections import RadioSections
from airfl.errors import UserError
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.selection import Ids
from airfl.uplinks.radio.obstacles import Obstacles
from airfl.uplinks.radio.own import own_response, selective_response
from airfl.uplinks.radio.parts import array_of, base_height_m, prefix_s, surroundings_of, waveform_of
from channels.antennas import AntennaArray, Directions, correlation_roots, steering_phase
from channels.csi import ChannelState, LineOfSight, Surroundings, received_power
from channels.draws import Complex, Draw, correlate
from channels.fading import (
    VARIATIONS,
    ChannelRequest,
    Fading,
    FadingLaw,
    FlatParts,
    OwnChannel,
    Recorded,
    Replay,
    SelectiveFading,
    flat_parts,
    keep_within,
    line_of_sight_cosines,
    line_of_sight_phase,
    rician_parts,
)
from channels.frame import Frame
from channels.grid import OfdmaGrid
from channels.recorded import RecordingError
from channels.selective import SelectiveRequest
from channels.selective.late import late_paths, take_late
from channels.selective.recorded_paths import respond_paths
from channels.selective.tapped_line import TappedLine
from channels.topology import Drop, Moving
from channels.units import SPEED_OF_LIGHT_M_S

if TYPE_CHECKING:
    from channels.selective.request import Variation
    from channels.waveform import Waveform

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrueChannels:
    """The true channels of all devices, from which every round draws its own.

    Attributes:
        sections: The sections of the settings that they are built from.
        devices: N, number of devices.
        streams: Random number streams of the run.
        grid: Resource elements and their durations.
        drops: Positions of the devices and their paths, one for each access point; empty without a topology.
        law: Law of flat fading; None for replayed or selective channels, and if every device has its own K.
        k_factors: K of every device's Rician law, linear, [N], or [N, points] with several access points, with the
            lines of sight as they are blocked; None if devices do not have their own K.
        replay: Recorded gains; None if the channel is drawn.
        scale: Mean |h| of flat laws, root mean square |h| of selective models, before bounds, [N], or [N, points] with
            several access points.
        mean_power: E|h|^2 within the bounds, [N]; before them for Sionna's models, as their law is unknown. With a
            surface it is that of random phases, with several access points the mean over them.
        point_power: E|h|^2 at the antennas of each access point, [N, points]; None if there is one.
        directions: Directions of the devices from each access point, [N] each; empty for one antenna, where they have
            no effect.
        moving: The devices over time; None if they stay at their places.
        obstacles: What blocks paths, None for nothing.
    """

    sections: RadioSections
    devices: int
    streams: Streams
    grid: OfdmaGrid
    drops: tuple[Drop, ...]
    law: FadingLaw | None
    k_factors: Array | None
    replay: Replay | None
    scale: Array
    mean_power: Array
    point_power: Array | None
    directions: tuple[Directions, ...]
    moving: Moving | None
    obstacles: Obstacles | None

    def at(self, round_index: int) -> Self:
        """Return the channels with the places of a round; here those of all rounds."""
        return self

    @property
    def drop(self) -> Drop | None:
        """Positions of the devices and their paths to the base station or the first access point; None without a
        topology."""
        return self.drops[0] if self.drops else None

    @cached_property
    def array(self) -> AntennaArray:
        """The antennas of the base station, or of one access point."""
        return array_of(self.sections.antennas, self.points)

    @property
    def points(self) -> int:
        """Number of access points."""
        return 1 if self.point_power is None else self.point_power.shape[1]

    def of_antennas(self, values: Array) -> Array:
        """Return values of devices at each antenna, [devices, antennas], from those at each access point, [devices,
        points]. Values [devices] are those of all antennas, and stay."""
        return values if values.ndim == 1 else np.repeat(values, self.array.count, axis=1)

    @cached_property
    def direct_power(self) -> Array:
        """E|h|^2 of the channels without a surface, [N]: before the loss of the direct paths, if there is one."""
        surface = self.sections.surface.surface
        return self.mean_power / surface.mean_power_factor if surface.elements else self.mean_power

    @property
    def physical(self) -> bool:
        """Whether powers are in W and energies in J."""
        return self.sections.channel.units == "physical"

    @cached_property
    def fading(self) -> Fading:
        """The fading model of the channel."""
        return self.sections.channel.fading_model

    @property
    def selective(self) -> bool:
        """Whether the channel differs between subcarriers, before offsets."""
        return self.fading.selective if self.replay is None else self.replay.selective

    @property
    def silent(self) -> bool:
        """Whether some devices have no path in some rounds, or may be in outage, as far as a recording tells."""
        return self.replay is not None and self.replay.silent

    @property
    def changes_within_a_round(self) -> bool:
        """Whether the channel changes while devices send, because they move.

        Of flat channels, only Jakes' model follows the movement; a replayed channel does if several blocks or Doppler
        shifts are recorded.
        """
        channel = self.sections.channel
        if isinstance(self.fading, OwnChannel):
            return self.fading.moves
        if self.replay is not None:
            return self.replay.moves
        follows = channel.variation != "constant" if self.selective else channel.variation == "jakes"
        return channel.speed_m_s > 0 and follows

    @cached_property
    def around(self) -> Surroundings:
        """The parameters of channel and grid that impairments depend on."""
        return surroundings_of(self.sections.channel, self.grid)

    @cached_property
    def waveform(self) -> Waveform | None:
        """The waveform that carries the entries; None if no waveform is simulated."""
        return waveform_of(self.sections.grid)

    def response_shape(self, frame: Frame) -> tuple[int, int]:
        """Return the numbers of blocks and subcarriers over which a device's channel differs, before offsets."""
        return frame.blocks if self.changes_within_a_round else 1, frame.subcarriers if self.selective else 1

    def channel(self, round_index: int, devices: Ids, frame: Frame) -> ChannelState:
        """Return the true channel of these devices, before offsets."""
        return self._channel(round_index, devices, frame)[0]

    def _channel(
        self, round_index: int, devices: Ids, frame: Frame
    ) -> tuple[ChannelState, NDArray[np.complex128] | None]:
        """Return the same and its line-of-sight part, with the axes of the response; None if that part is unknown."""
        here = self.at(round_index)
        if here is not self:
            return here._channel(round_index, devices, frame)
        if self.replay is not None:
            return self._recorded(self.replay, round_index, devices, frame), None
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

    def _flat(self, round_index: int, devices: Ids, frame: Frame) -> FlatParts:
        """Return the gains and their line-of-sight part, [devices, antennas x blocks], with blocks innermost."""
        channel, antennas = self.sections.channel, self.sections.antennas.count
        per_round, per_run = self._draws(round_index, devices)
        times_s = self._times_s(round_index, frame)
        doppler_hz, when, ways = self.around.doppler_hz, times_s, self._ways(devices, times_s)
        if ways is not None:
            doppler_hz, when = 1.0, ways
        diffuse = VARIATIONS[channel.variation](per_round, per_run, antennas, doppler_hz, when)
        roots, steering = self._spatial_roots(devices), None
        if roots is not None:
            diffuse = correlate(roots, diffuse)
        if self.directions:
            steering = np.repeat(self._steering(round_index, devices), len(times_s), axis=1)
        diffuse = diffuse.reshape(len(devices), antennas * len(times_s))
        phase = np.zeros((len(devices), 1))
        if self.law is None or self.law.line_of_sight > 0:
            phase = line_of_sight_phase(channel.variation, per_round, per_run, antennas)[:, None]
            if channel.variation == "jakes" and self.moving is not None:  # a wavelength nearer is a turn of the phase
                phase = np.tile(phase - self._wavelengths(self.moving, devices, times_s), antennas)
            elif channel.variation == "jakes":  # the line of sight moves with the diffuse paths
                shifts_hz = self._line_of_sight_doppler_hz(round_index, devices)
                phase = np.tile(phase + shifts_hz[:, None] * times_s, antennas)

        def at(values: Array) -> Array:
            found = self.of_antennas(values[devices])
            return found if found.ndim == 1 else np.repeat(found, len(times_s), axis=1)

        if self.law is None:
            assert self.k_factors is not None
            phase = phase if steering is None else phase + steering
            power = self.direct_power if self.point_power is None else self.point_power
            return rician_parts(at(self.k_factors), diffuse, phase, np.sqrt(at(power)))
        limits = (0.0, np.inf) if self.physical else (channel.min_gain, channel.max_gain)
        return flat_parts(
            self.law,
            diffuse,
            phase,
            scale=at(self.scale),
            min_gain=limits[0],
            max_gain=limits[1],
            bounds=channel.bounds,
            steering=steering,
        )

    def _steering(self, round_index: int, devices: Ids) -> Array:
        """Return the phase of the line of sight at each antenna in units of 2 pi, [devices, antennas], over that at the
        first antenna of the first access point.

        The phases at other access points are independent: the paths differ by many wavelengths. They are drawn as often
        as the phase at the first one.
        """
        phases = [steering_phase(self.array, one.take(devices)) for one in self.directions]
        if self.points > 1:
            t = None if VARIATIONS[self.sections.channel.variation].per_run else round_index
            further = device_uniforms.draw(self.streams, Purpose.ACCESS_POINT_PHASE, t, devices, self.points - 1)
            phases[1:] = [phase + turn[:, None] for phase, turn in zip(phases[1:], further.T, strict=True)]
        return np.concatenate(phases, axis=1)

    def _times_s(self, round_index: int, frame: Frame) -> Array:
        """Return the times since the start of the run at which flat fading is drawn, [blocks]."""
        channel = self.sections.channel
        within_s = frame.block_times_s if channel.variation == "jakes" else np.zeros(1)
        return np.asarray(round_index * channel.round_s + within_s)

    def _recorded(self, replay: Replay, round_index: int, devices: Ids, frame: Frame) -> ChannelState:
        """Return the recorded channel, 0 for devices without a path and for those in outage."""
        with self.reading():
            if replay.has_paths:
                rows = replay.recorded(round_index, devices)
                found = respond_paths(rows, self._request(round_index, devices, frame))
                state = ChannelState(found.response, found.leaked_power)
            else:
                state = ChannelState(*replay.response(round_index, devices, frame))
        if replay.outage_gain:
            power = received_power(state.response).mean(axis=(1, 2)) / state.response.shape[1]
            weak = power <= replay.outage_gain**2
            if weak.any():
                response = np.where(weak[:, None, None, None], state.response.dtype.type(0), state.response)
                state = replace(state, response=response)
        return state

    @contextmanager
    def reading(self, key: str = "channel.replay_file", file: str | None = None) -> Iterator[None]:
        """Convert errors of a recorded file inside the block into UserErrors.

        key: the setting that gives the file; file: the file, None for that of the recorded channel.
        """
        try:
            yield
        except (RecordingError, OSError, KeyError) as error:
            if file is None:
                assert isinstance(self.fading, Recorded)
                file = self.fading.file
            raise UserError(f"{key}: {file}: {' '.join(str(error).split())}") from None

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
        small = selective_response(self.fading, request, round_index, len(devices))
        scale = self.scale[devices, None, None].astype(np.float32)
        faded, leaked_power = small.response, small.leaked_power
        faded *= scale[..., None]
        if not self.physical:
            keep_within(faded, channel.min_gain, channel.max_gain)
        return ChannelState(faded, None if leaked_power is None else leaked_power * scale**2)

    def _taps(
        self, round_index: int, devices: Ids, frame: Frame, rate_hz: float
    ) -> tuple[NDArray[np.complex128], NDArray[np.int64]]:
        if isinstance(self.fading, TappedLine):
            taps, delays_s = self.fading.coefficients(self._request(round_index, devices, frame))
            return self.scale[devices, None] * taps[:, 0, 0], np.round(delays_s * rate_hz).astype(np.int64)
        state = self.channel(round_index, devices, frame)
        return np.asarray(state.response[:, 0, 0, :], dtype=np.complex128), np.zeros(1, dtype=np.int64)

    def _spatial_roots(self, devices: Ids) -> Complex | None:
        """Return square roots of the diffuse part's correlation between antennas, [devices, antennas, antennas].

        None if the antennas are independent, or their gains are recorded. Those of different access points are
        independent.
        """
        if not self.directions or self.replay is not None:
            return None
        correlation = self.sections.antennas.diffuse_correlation
        if correlation.kind == "independent":
            return None
        roots = [correlation_roots(self.array, correlation, one.take(devices)) for one in self.directions]
        if len(roots) == 1:
            return roots[0]
        size = self.array.count
        joint = np.zeros((len(devices), len(roots) * size, len(roots) * size), dtype=np.complex128)
        for point, own in enumerate(roots):
            joint[:, point * size : (point + 1) * size, point * size : (point + 1) * size] = own
        return joint

    def _line_of_sight(self, part: NDArray[np.complex128] | None, round_index: int, devices: Ids) -> LineOfSight | None:
        """Return the line of sight as channel ageing needs it; None if its part of the channel is not given, and with
        several access points, where a channel with a line of sight does not age."""
        if part is None or self.points > 1:
            return None
        if self.k_factors is not None:
            share = self.k_factors[devices] / (self.k_factors[devices] + 1)
        else:
            assert self.law is not None
            share = np.full(len(devices), 1.0 if self.law.constant else self.law.line_of_sight)
        return LineOfSight(part, part, share, self._line_of_sight_doppler_hz(round_index, devices))

    def _line_of_sight_doppler_hz(self, round_index: int, devices: Ids) -> Array:
        """Return f_D cos(theta), [devices], with theta the angle between a device's motion and its line of sight."""
        if self.moving is not None:
            drop, time_s = self.at(round_index).drop, round_index * self.sections.channel.round_s
            assert drop is not None
            velocity_m_s = self.moving.motion.take(devices).at(time_s)[1]
            away_m_s = (drop.positions_m[devices, :2] * velocity_m_s).sum(axis=1) / drop.distance_m[devices]
            return np.asarray(-away_m_s * self.sections.channel.carrier_hz / SPEED_OF_LIGHT_M_S)
        per_round, per_run = self._draws(round_index, devices)
        cosines = line_of_sight_cosines(
            self.sections.channel.variation, per_round, per_run, self.sections.antennas.count
        )
        return np.asarray(self.around.doppler_hz * cosines)

    def _ways(self, devices: Ids, times_s: Array) -> Array | None:
        """Return the ways of these devices since the start in wavelengths, [devices, times]; None if all have one
        constant speed, or stay at their places."""
        ways_m = None if self.moving is None else self.moving.motion.take(devices).ways(times_s)
        return None if ways_m is None else ways_m * (self.sections.channel.carrier_hz / SPEED_OF_LIGHT_M_S)

    def _motion_of(self, round_index: int, devices: Ids) -> tuple[Array | None, Array | None]:
        """Return the velocities of these devices at the start of a round in m/s, [devices, 3], and their ways until
        then in m, [devices]. None for devices that stay at their places, and for ways at one constant speed."""
        if self.moving is None:
            return None, None
        motion, start_s = self.moving.motion.take(devices), round_index * self.sections.channel.round_s
        level, ways_m = motion.at(start_s)[1], motion.ways(np.array([start_s]))
        velocities_m_s = np.concatenate([level, np.zeros((len(level), 1))], axis=1)
        return velocities_m_s, None if ways_m is None else ways_m[:, 0]

    def _around_of(self, round_index: int, devices: Ids) -> Surroundings:
        """Return what impairments of these devices depend on, with their own Doppler shifts where speeds differ."""
        start_s = round_index * self.sections.channel.round_s
        if self.moving is None or self.moving.motion.ways(np.zeros(1)) is None:
            return self.around
        speeds_m_s = np.linalg.norm(self.moving.motion.take(devices).at(start_s)[1], axis=1)
        return replace(self.around, own_doppler_hz=speeds_m_s * self.sections.channel.carrier_hz / SPEED_OF_LIGHT_M_S)

    def _wavelengths(self, moving: Moving, devices: Ids, times_s: Array) -> Array:
        """Return the length of the direct path in wavelengths, [devices, times]."""
        motion, drop = moving.motion.take(devices), self.drop
        assert drop is not None
        height_m = drop.base_height_m - moving.parameters.device_height_m
        lengths_m = [np.hypot(np.linalg.norm(motion.at(float(time))[0], axis=1), height_m) for time in times_s]
        return np.stack(lengths_m, axis=1) * self.sections.channel.carrier_hz / SPEED_OF_LIGHT_M_S

    def _request(self, round_index: int, devices: Ids, frame: Frame) -> SelectiveRequest:
        channel = self.sections.channel
        per_round, per_run = self._draws(round_index, devices)
        request = SelectiveRequest(
            frame=frame,
            antennas=self.sections.antennas.count,
            carrier_hz=channel.carrier_hz,
            speed_m_s=channel.speed_m_s,
            variation=cast("Variation", channel.variation),
            start_s=round_index * channel.round_s,
            per_round=per_round,
            per_run=per_run,
            prefix_s=prefix_s(self.grid),
            spacing_hz=self.grid.spacing_hz,
            bandwidth_hz=self.grid.used_subcarriers * self.grid.spacing_hz,
            array=self.sections.antennas.geometry,
            directions=self.directions[0].take(devices) if self.directions else None,
            broadside_rad=math.radians(self.sections.antennas.broadside_deg),
            spatial_roots=self._spatial_roots(devices),
        )
        if self.drop is None:
            return request
        height_m, blocked = base_height_m(channel, self.sections.topology), None
        if self.obstacles is not None:
            blocked = self.obstacles.of_paths(self.drop, devices, height_m, round_index * channel.round_s)
        velocities_m_s, ways_m = self._motion_of(round_index, devices)
        return replace(
            request,
            velocities_m_s=velocities_m_s,
            ways_m=ways_m,
            positions_m=self.drop.positions_m[devices],
            base_height_m=height_m,
            blocked=blocked,
            line_of_sight=self.drop.line_of_sight[devices],
            scores=None if self.drop.scores is None else self.drop.scores[devices],
            hall_m=self.sections.topology.hall_m,
        )

    def _own_request(self, round_index: int, devices: Ids, frame: Frame) -> ChannelRequest:
        per_round, per_run = self._draws(round_index, devices)
        start_s = round_index * self.sections.channel.round_s
        antennas = self.sections.antennas.count
        return ChannelRequest(round_index, devices, antennas, frame, start_s, per_round, per_run)

    def _draws(self, round_index: int, devices: Ids) -> tuple[Draw, Draw]:
        """Return the random draws of this round, and those of the whole run."""
        return (
            lambda count: device_uniforms.draw(self.streams, Purpose.FADING, round_index, devices, count),
            lambda count: device_uniforms.draw(self.streams, Purpose.FADING, None, devices, count),
        )
