"""Neighbouring cells: devices of their own, received by their own base station and by that of this cell, and checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from airfl.config.part_keys import name_of
from airfl.config.radio import PowerSettings
from airfl.config.radio_sections import RadioSections
from airfl.errors import AlignmentError, UserError
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.selection import ChannelRule, Ids, SelectionRule
from airfl.uplinks.radio.parts import cell_of, placed_in, settings_of
from airfl.uplinks.radio.radio import Radio, radio_at
from channels.csi import Response
from channels.fading import FlatFading
from channels.fading.registry import FADING_LAWS
from channels.frame import Frame
from channels.topology import PATH_LOSS, Drop, Topology, neighbouring

Array = NDArray[np.float64]

# Factor by which a smallest distance is exceeded, so that rounding does not fall short of it.
ABOVE = 1 + 1e-9


@dataclass(frozen=True)
class NeighbourCell:
    """A neighbouring cell, which stays the same in all rounds.

    Attributes:
        streams: Its random number streams.
        serving: The radio of its devices with their own base station.
        crossing: The radio of the same devices with the base station of this cell.
        elsewhere: The radios of the same devices with the base stations of the other neighbouring cells, in their
            order; () unless power is controlled across cells.
        of_this_cell: The radio of the devices of this cell with the base station of the neighbour; None unless power is
            controlled across cells.
    """

    streams: Streams
    serving: Radio
    crossing: Radio
    elsewhere: tuple[Radio, ...] = ()
    of_this_cell: Radio | None = None

    def crossing_of(self, round_index: int, devices: Ids, frame: Frame) -> Response:
        """Return the true channels of these devices to the base station of this cell, complex [devices, antennas,
        blocks, subcarriers].

        They are turned by a phase that is uniform for each device and round: devices follow the oscillator of their own
        base station, and paths differ by many wavelengths.
        """
        turns = device_uniforms.draw(self.streams, Purpose.NEIGHBOURS, round_index, devices, 1)[:, 0]
        response = self.crossing.channel(round_index, devices, frame).response
        return np.asarray(response * np.exp(2j * np.pi * turns)[:, None, None, None], dtype=np.complex128)


def neighbours_of(
    sections: RadioSections,
    streams: Streams,
    this: Radio,
    *,
    devices: int,
    rounds: int,
    pilots_at_once: bool = False,
    all_paths: bool = False,
) -> tuple[NeighbourCell, ...]:
    """Build the neighbouring cells of a run, each with so many devices. Other arguments as in `build_radio`.

    this: the radio of this cell; all_paths: whether to build the radios of all devices with all base stations, which
    power control across cells needs.

    What is drawn for a cell does not depend on the number of cells.

    Raises UserError if devices cannot be placed.
    """
    positions = sections.topology.neighbour_positions
    if not positions:
        return ()
    seeds = streams.generator(Purpose.NEIGHBOURS).integers(0, 1 << 64, size=(len(positions), 2), dtype=np.uint64)
    cells = []
    for position, (own, across) in zip(positions, seeds.tolist(), strict=True):
        with settings_of("topology"):
            cell = neighbouring(cell_of(sections.channel, sections.topology), position)
            placed = placed_in(cell, devices=devices, streams=Streams(own))
        points = len(placed) // 2
        cells.append(
            NeighbourCell(
                streams=Streams(own),
                serving=radio_at(
                    sections,
                    Streams(own),
                    placed[:points],
                    devices=devices,
                    rounds=rounds,
                    pilots_at_once=pilots_at_once,
                ),
                crossing=radio_at(sections, Streams(across), placed[points:], devices=devices, rounds=rounds),
            )
        )
    return _with_all_paths(tuple(cells), this, positions, rounds) if all_paths else tuple(cells)


def _with_all_paths(
    cells: tuple[NeighbourCell, ...], this: Radio, positions: Sequence[tuple[float, float]], rounds: int
) -> tuple[NeighbourCell, ...]:
    """Return the cells with the radios of all devices with all base stations. positions: of the base stations in m,
    relative to that of this cell."""
    completed = []
    for index, (cell, (x, y)) in enumerate(zip(cells, positions, strict=True)):
        seeds = cell.streams.generator(Purpose.NEIGHBOURS).integers(0, 1 << 64, size=1 + len(cells), dtype=np.uint64)
        of_this, *others = (Streams(seed) for seed in seeds.tolist())
        elsewhere = tuple(
            _seen_from(cell.serving, (to_x - x, to_y - y), others[other], rounds)
            for other, (to_x, to_y) in enumerate(positions)
            if other != index
        )
        completed.append(replace(cell, elsewhere=elsewhere, of_this_cell=_seen_from(this, (x, y), of_this, rounds)))
    return tuple(completed)


def _seen_from(serving: Radio, position: tuple[float, float], streams: Streams, rounds: int) -> Radio:
    """Return the radio of the devices of a cell with the base station of another one.

    A device that is nearer than `topology.min_distance_m` to it, or to one of its access points, counts as being at
    that distance.

    Args:
        serving: The radio of the devices with their own base station.
        position: x and y of the origin of the other cell in m, relative to that of their own.
        streams: Random number streams of the paths.
        rounds: Number of rounds.

    Raises UserError if the path loss model has no loss for a path.
    """
    sections, devices = serving.sections, serving.devices
    seeds = streams.generator(Purpose.ACCESS_POINTS).integers(0, 1 << 64, size=serving.points, dtype=np.uint64)
    seen: list[Drop] = []
    assert serving.drop is not None
    with settings_of("topology"):
        cell = cell_of(sections.channel, sections.topology)
        places = serving.drop.positions_m[:, :2] + np.array(cell.access_points[0])  # relative to their own origin
        for index, (x, y) in enumerate(cell.access_points):
            point = (position[0] + x, position[1] + y)
            placed = replace(
                cell,
                kind="coordinates",
                coordinates=tuple(map(tuple, _kept_away(cell, places, point).tolist())),
                access_points=(point,),
                neighbours=(),
            )
            seen += placed_in(placed, devices=devices, streams=Streams(int(seeds[index])) if index else streams)
    return radio_at(sections, streams, tuple(seen), devices=devices, rounds=rounds)


def _kept_away(cell: Topology, places: Array, point: tuple[float, float]) -> Array:
    """Return places in m, [devices, 2], of which those that are too near to a point are moved straight away from it."""
    least_m = PATH_LOSS[cell.path_loss].distances_m[0] if cell.min_distance_m is None else cell.min_distance_m
    away = places - np.array(point)
    near, angles = np.hypot(away[:, 0], away[:, 1]) < least_m, np.arctan2(away[:, 1], away[:, 0])
    on_circle = np.array(point) + least_m * ABOVE * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.where(near[:, None], on_circle, places)


def check_neighbours(radio: RadioSections, rule: SelectionRule, link: str) -> None:
    """Check that neighbouring cells can run the same aggregation, and that their interference is modelled.

    Args:
        radio: The sections of the radio.
        rule: Rule by which devices are selected.
        link: Kind of the uplink.

    Raises UserError if they cannot, or if it is not.
    """
    if not radio.topology.neighbour_positions:
        return
    channel, antennas, power = radio.channel, radio.antennas, radio.power
    cells, none = "neighbouring cells (topology.neighbours)", "leave topology.neighbours out"
    if link == "noncoherent":
        raise UserError(
            "topology.neighbours: the noncoherent link adds up energies, and those from neighbouring cells are not "
            f"modelled; {none}, or use channel.interference_to_noise_db"
        )
    if isinstance(rule, ChannelRule):
        raise UserError(
            f"selection.kind: {rule.name!r} chooses among devices, which is not simulated in {cells}; use "
            f"uniform or poisson, or {none}"
        )
    if power.alignment == "population":
        raise AlignmentError(
            f'power.alignment: "population" needs the channels of all devices, which are not simulated in {cells}; use '
            f'"sample" or "schedule", or {none}'
        )
    if power.across_cells != "none":
        _check_across_cells(power)
    if not isinstance(channel.fading_model, FlatFading):
        raise UserError(
            f"channel.fading: {name_of(channel.fading)!r} is not simulated between cells (topology.neighbours); use a "
            f"flat law ({', '.join(FADING_LAWS)}), or {none}"
        )
    if channel.variation == "jakes" and channel.coherence != "round":
        raise UserError(
            f"channel.coherence: {channel.coherence!r} is not simulated between cells (topology.neighbours); use "
            f'"round", or {none}'
        )
    for key, present, given in (
        ("surface.elements", bool(radio.surface.elements), radio.surface.elements),
        ("grid.waveform", radio.grid.waveform, radio.grid.waveform),
        ("grid.downlink", radio.grid.downlink, radio.grid.downlink),
        ("hardware.amplifier", radio.hardware.amplifier != "none", radio.hardware.amplifier),
        ("hardware.fronthaul_bits", radio.hardware.fronthaul_bits is not None, radio.hardware.fronthaul_bits),
        ("antennas.combining", antennas.count > 1 and antennas.combiner.robust, name_of(antennas.combining)),
        ("power.peak", power.peak_db is not None and power.peak == "clip", power.peak),
    ):
        if present:
            raise UserError(f"{key}: is not simulated beside signals from {cells}, got {given!r}; omit it, or {none}")
    if link == "analog":
        return
    if antennas.count > 1:
        raise UserError(
            f"antennas.count: the {link} link beside signals from {cells} is for one antenna, got {antennas.count}; "
            f"use 1, or {none}"
        )
    if channel.interference_to_noise_db is not None and not channel.interference_model.gaussian:
        raise UserError(
            f"channel.interference: rates of the {link} link are not known under {name_of(channel.interference)!r} "
            f'interference beside signals from {cells}; use "gaussian", or {none}'
        )


def _check_across_cells(power: PowerSettings) -> None:
    """Check that beta may follow from the channels of all cells; raises UserError otherwise."""
    given, policy = f"power.across_cells = {power.across_cells!r}", power.power_policy
    if power.alignment == "schedule":
        raise AlignmentError(
            f'power.alignment: "schedule" announces beta, which {given} sets by the channels; use "sample", or '
            'power.across_cells = "none"'
        )
    if policy.target is not None:
        raise UserError(
            f"power.coefficient: sets beta, which {given} lowers by the channels (given: {policy.target:g}); omit it, "
            'or use power.across_cells = "none"'
        )
    if policy.statistical or not policy.coherent:
        raise UserError(
            f"power.policy: {policy.name!r} sets power without the channels of a round, which {given} needs of all "
            'cells; use another policy, or power.across_cells = "none"'
        )
