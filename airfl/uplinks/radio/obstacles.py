"""What blocks the paths of a run (TR 38.901, clause 7.6.4), and the checks of its settings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airfl.config.part_keys import name_of
from airfl.config.radio_sections import RadioSections
from airfl.errors import UserError
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.selection import Ids
from airfl.uplinks.radio.parts import cell_of, whole_population
from channels.blockage import FIELD, Blockage, Obstructed, Screens, regions_at, screens_of
from channels.fading.registry import FADINGS
from channels.fading.rician import Rician
from channels.selective.request import Blocked
from channels.selective.scenario import Tr38901Scenario
from channels.topology import PATH_LOSS, Drop, Moving, Topology
from channels.topology.tracks import Tracks
from channels.units import db_to_linear

Array = NDArray[np.float64]

# Of the circle with the screens, if all devices are at the base station.
_LEAST_RADIUS_M = 1.0


@dataclass(frozen=True)
class Obstacles:
    """What blocks the paths of a run.

    Attributes:
        parameters: The parameters of blockage.
        streams: Random number streams of the run.
        carrier_hz: Carrier frequency in Hz.
        points: x and y of the access points in m; ((0, 0),) for a single base station.
        screens: The screens of model-b; None for model-a.
    """

    parameters: Blockage
    streams: Streams
    carrier_hz: float
    points: tuple[tuple[float, float], ...]
    screens: Screens | None

    @property
    def moving(self) -> bool:
        """Whether the blockers move, so that losses change from round to round though devices stay."""
        return self.parameters.speed_m_s != 0

    def left_in_sight(self, placed: tuple[Drop, ...], time_s: float) -> list[Array]:
        """Return the share of the power of the direct path that the screens let pass, of all devices to each access
        point, [N] each.

        Args:
            placed: The devices as seen from each access point.
            time_s: Time since the start of the run in s.
        """
        assert self.screens is not None
        standing, found = self.screens.at(time_s), []
        for drop, (x, y) in zip(placed, self.points, strict=True):
            devices_m = drop.positions_m[drop.line_of_sight] + np.array([x, y, 0.0])
            left = np.ones(len(drop.positions_m))
            loss_db = standing.direct_loss_db(devices_m, np.array([x, y, drop.base_height_m]))
            left[drop.line_of_sight] = db_to_linear(-loss_db)
            found.append(left)
        return found

    def of_paths(self, drop: Drop, devices: Ids, base_height_m: float, time_s: float) -> Blocked:
        """Return what blocks the paths of some devices to the base station at a time in s since the start of the
        run."""
        places_m = drop.positions_m[devices]
        if self.screens is not None:
            return Obstructed(self.screens.at(time_s), places_m, np.array([0.0, 0.0, base_height_m]))
        fields = self.streams.generator(Purpose.BLOCKED_REGIONS).random((self.parameters.regions, *FIELD))
        return regions_at(
            self.parameters,
            lambda count: device_uniforms.draw(self.streams, Purpose.BLOCKERS, None, devices, count),
            fields,
            places_m[:, :2],
            time_s,
            self.carrier_hz,
        )


def obstacles_of(sections: RadioSections, streams: Streams, moved: Moving | None = None) -> Obstacles | None:
    """Return what blocks the paths of a run, None for nothing. moved: the devices over time, None if they stay at their
    places."""
    parameters, channel, topology = sections.blockage.blockage, sections.channel, sections.topology
    if parameters.model == "none":
        return None
    cell, found = cell_of(channel, topology), None
    if parameters.model == "model-b":
        draw = whole_population(streams, Purpose.BLOCKERS, parameters.count)
        found = screens_of(parameters, draw, _radius_m(cell, moved), channel.carrier_hz)
    return Obstacles(parameters, streams, channel.carrier_hz, cell.access_points, found)


def _radius_m(cell: Topology, moved: Moving | None) -> float:
    """Return the radius in m of the circle around the base station that holds all devices at any time, which does not
    depend on the number of rounds."""
    if moved is not None and isinstance(moved.motion, Tracks):
        return max(_LEAST_RADIUS_M, moved.motion.farthest_m)
    if cell.kind != "coordinates" or not cell.coordinates:
        return cell.radius_m
    return max(_LEAST_RADIUS_M, *(math.hypot(x, y) for x, y in cell.coordinates))


def check_blockage(radio: RadioSections) -> None:
    """Check that blockage acts on the channel that is set; raises UserError."""
    model, channel = radio.blockage.model, radio.channel
    if model == "none":
        return
    fading, name, off = channel.fading_model, name_of(channel.fading), 'leave blockage.model out ("none")'
    scenario = isinstance(fading, Tr38901Scenario)
    if model == "model-a" and (not scenario or PATH_LOSS[fading.name].factory is not None):
        raise UserError(
            "blockage.model: 'model-a' attenuates the clusters of channel.fading = umi, uma or rma by their directions "
            f"(given: {name!r}); use one of these, or {off}"
        )
    if not scenario:
        _check_line_of_sight(radio, off)
    if radio.surface.elements:
        raise UserError(
            f"surface.elements: paths over a surface are not blocked by blockage.model = {model!r} (given: "
            f"{radio.surface.elements} elements); use 0 elements, or {off}"
        )
    if radio.topology.neighbour_positions:
        raise UserError(
            f"topology.neighbours: paths from neighbouring cells are not blocked by blockage.model = {model!r}; leave "
            f"it out, or {off}"
        )
    if scenario:
        _check_mean_power(radio, off)


def _check_mean_power(radio: RadioSections, off: str) -> None:
    """Check that nothing is estimated or drawn by the mean power of the channels, which is not known behind blockers;
    raises UserError."""
    imperfections, given = radio.csi.imperfections, f"blockage.model = {radio.blockage.model!r}"
    if imperfections.estimation.method == "mmse":
        raise UserError(
            f'csi.estimation: "mmse" needs the mean power of the channels, which {given} changes; use "ls", or {off}'
        )
    if imperfections.ageing.delay_s and radio.channel.speed_m_s:
        raise UserError(
            f"csi.delay_s: channels change over the delay by their mean power, which {given} changes (given: "
            f"{imperfections.ageing.delay_s:g} s); use 0, or {off}"
        )


def _check_line_of_sight(radio: RadioSections, off: str) -> None:
    """Check that a flat channel has lines of sight between known places, which screens can block."""
    fading, topology = radio.channel.fading_model, radio.topology
    able = ", ".join(name for name in FADINGS.classes.values() if issubclass(FADINGS[name], Tr38901Scenario))
    if not isinstance(fading, Rician):
        raise UserError(
            "blockage.model: 'model-b' blocks the line of sight of channel.fading = 'rician', and all paths of "
            f"{able} (given: {name_of(radio.channel.fading)!r}); use one of these, or {off}"
        )
    if topology.kind == "none":
        raise UserError(
            f"topology.kind: blockage.model = 'model-b' needs the places of the devices, got 'none'; use disc, annulus "
            f"or coordinates, or {off}"
        )
    if topology.los == "nlos" or not fading.k:
        key, given = ("topology.los", "'nlos'") if topology.los == "nlos" else ("channel.rician_k", "0")
        raise UserError(
            f"{key}: blockage.model = 'model-b' blocks lines of sight, of which there are none (given: {given}); use "
            f"another value, or {off}"
        )
