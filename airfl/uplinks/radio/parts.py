"""Convert sections of the settings to objects of the `channels` package."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.config.parts import error_text
from airfl.config.radio import AntennaSettings, ChannelSettings, GridSettings, TopologySettings, path_loss_of
from airfl.config.radio_sections import RadioSections
from airfl.config.section import LEAST_SCALE, MOST_SCALE
from airfl.errors import UserError
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.selection import Ids
from channels.antennas import AntennaArray, Directions
from channels.csi import IMPAIRMENTS, Surroundings
from channels.draws import Draw
from channels.fading import doppler_hz
from channels.grid import OfdmaGrid, default_symbol_duration_s, exact_grid, subcarriers_of, used_from
from channels.noise import thermal_noise_std
from channels.part import PartError
from channels.recorded import RecordingError
from channels.topology import FIELDS, PATH_LOSS, Drop, Moving, Topology, check_topology, drops, moving
from channels.topology.cell import area_of, check_places
from channels.topology.drops import WITH_SPREADS
from channels.topology.tracks import Tracks, read_tracks

if TYPE_CHECKING:
    from channels.waveform import Waveform

Array = NDArray[np.float64]

IMPAIRMENT_PURPOSES = {
    "estimation": Purpose.CSI,
    "feedback": Purpose.FEEDBACK,
    "ageing": Purpose.AGEING,
    "phase": Purpose.PHASE,
    "timing": Purpose.TIMING,
    "frequency": Purpose.FREQUENCY,
    "oscillator": Purpose.OSCILLATOR,
    "synchronisation": Purpose.SYNCHRONISATION,
}
"""Random stream of each impairment. A new impairment needs a new purpose, so that it does not change other draws."""
MANY_CORRELATED = 300_000
"""Number of links to base stations from which on correlated shadowing takes about a minute or more."""


@contextmanager
def settings_of(section: str) -> Iterator[None]:
    """Convert errors that `channels` raises inside the block into UserErrors for that section."""
    try:
        yield
    except PartError as error:
        raise UserError(error_text(error, section)) from None
    except ValueError as error:
        raise UserError(f"{section}: {error}") from None


def grid_of(grid: GridSettings) -> OfdmaGrid:
    """Return the OFDMA grid."""
    with settings_of("grid"):
        subcarriers = grid.subcarriers if grid.resource_blocks is None else subcarriers_of(grid.resource_blocks)
        used = None if grid.used is None else used_from(grid.used, subcarriers=subcarriers)
        if grid.prefix != "mean":
            return exact_grid(subcarriers, grid.spacing_hz, grid.prefix, grid.packing, used)
        duration_s = grid.symbol_duration_s or default_symbol_duration_s(grid.spacing_hz)
        if not LEAST_SCALE <= duration_s <= MOST_SCALE:
            raise ValueError(
                f"spacing_hz = {grid.spacing_hz:g} gives symbols of {duration_s:g} s; the duration must be from "
                f"{LEAST_SCALE:g} to {MOST_SCALE:g} s"
            )
        return OfdmaGrid(subcarriers, duration_s, grid.packing, grid.spacing_hz, used)


def noise_std_of(channel: ChannelSettings, grid: GridSettings) -> float:
    """Return sigma_0, the noise on an observed real entry: the configured value, or in sqrt(W) from bandwidth and noise
    figure."""
    if channel.units == "normalised":
        return channel.noise_std
    with settings_of("channel"):
        return thermal_noise_std(grid.spacing_hz, channel.noise_figure_db, channel.temperature_k)


def link_noise_std_of(channel: ChannelSettings, grid: GridSettings) -> float:
    """Return the square root of N_0 = 2 sigma_0^2, the noise on a complex element, for digital and ideal links."""
    return math.sqrt(2.0) * noise_std_of(channel, grid)


def surroundings_of(channel: ChannelSettings, grid: OfdmaGrid) -> Surroundings:
    """Return the properties of channel and grid that impairments depend on."""
    return Surroundings(
        doppler_hz(channel.speed_m_s, channel.carrier_hz),
        grid.spacing_hz,
        prefix_s(grid),
        channel.carrier_hz,
        grid.subcarriers * grid.spacing_hz,
    )


def prefix_s(grid: OfdmaGrid) -> float:
    """Return the shortest cyclic prefix of the grid's symbols in s."""
    if grid.numerology is not None:
        return grid.numerology.shortest_prefix_s
    return max(grid.symbol_duration_s - 1 / grid.spacing_hz, 0.0)


def waveform_of(section: GridSettings) -> Waveform | None:
    """Return the waveform if entries are modulated in time, else None. The FFT size is the next power of two."""
    if not section.waveform:
        return None
    from channels.waveform import Waveform

    grid = grid_of(section)
    size = 1 << (grid.used_subcarriers - 1).bit_length()
    prefix_samples = round(prefix_s(grid) * grid.spacing_hz * size)
    with settings_of("grid.waveform"):
        return Waveform(size, prefix_samples, grid.used_subcarriers, section.clip_db)


def cell_of(channel: ChannelSettings, topology: TopologySettings) -> Topology:
    """Return the placement of devices and the path loss of a topology other than "none"."""
    return topology.cell(path_loss=path_loss_of(channel, topology), carrier_hz=channel.carrier_hz)


def placed_devices(
    channel: ChannelSettings, topology: TopologySettings, *, devices: int, streams: Streams
) -> tuple[Drop, ...]:
    """Return the positions of all devices of a run, and their path losses to each access point; () without a topology.

    Raises UserError if they cannot be placed.
    """
    if topology.kind == "none":
        return ()
    with settings_of("topology"):
        return placed_in(cell_of(channel, topology), devices=devices, streams=streams)


def placed_in(cell: Topology, *, devices: int, streams: Streams) -> tuple[Drop, ...]:
    """Return the positions of all devices of a cell, and their path losses to each access point. Raises ValueError if
    they cannot be placed."""
    return drops(
        cell,
        whole_population(streams, Purpose.TOPOLOGY, devices),
        whole_population(streams, Purpose.ACCESS_POINTS, devices),
        whole_population(streams, Purpose.PLACED_AGAIN, devices),
    )


def moving_devices(
    channel: ChannelSettings, topology: TopologySettings, *, devices: int, rounds: int, streams: Streams
) -> Moving | None:
    """Return the devices of a run over time; None if they stay at their places.

    Raises UserError if they cannot be placed, or a file with their places cannot be used.
    """
    if topology.kind == "none" or topology.motion == "none":
        return None
    cell = cell_of(channel, topology)
    tracks = tracks_of(channel, cell, devices=devices, rounds=rounds) if cell.motion == "file" else None
    with settings_of("topology"):
        return moving(
            cell,
            whole_population(streams, Purpose.TOPOLOGY, devices),
            lambda some, count: device_uniforms.draw(streams, Purpose.MOTION, None, some, count),
            streams.generator(Purpose.FIELDS).random(WITH_SPREADS if channel.fading_model.own_path_loss else FIELDS),
            channel.speed_m_s,
            tracks,
        )


def tracks_of(channel: ChannelSettings, cell: Topology, *, devices: int, rounds: int) -> Tracks:
    """Return the motion of the devices as a file says. Raises UserError if it cannot be used."""
    with settings_of("topology"):
        check_topology(cell, devices)
    assert cell.motion_file is not None
    try:
        tracks = read_tracks(
            cell.motion_file,
            devices=devices,
            start_s=cell.motion_start_s,
            rounds=rounds,
            round_s=channel.round_s,
            at_end=cell.motion_end,
            fastest_m_s=channel.speed_m_s,
            least_m=area_of(cell).min_distance_m,
            height_m=cell.device_height_m,
        )
        check_places(cell, *tracks.distances_m)
    except (RecordingError, OSError, ValueError) as error:
        raise UserError(f"topology.motion_file: {cell.motion_file}: {' '.join(str(error).split())}") from None
    return tracks


def pairs_of_cells(radio: RadioSections) -> int:
    """Return the number of pairs of a cell and a base station for which the channels of the cell's devices are drawn.

    Devices of this cell have channels to their own base station, and those of neighbouring cells to their own and to
    that of this cell. If power is controlled across cells, all have channels to all base stations.
    """
    cells = 1 + len(radio.topology.neighbour_positions)
    return 2 * cells - 1 if radio.power.across_cells == "none" else cells**2


def slow_shadowing(radio: RadioSections, devices: int) -> str | None:
    """Return a notice if correlated shadowing takes minutes, since it is drawn for one link after the other.

    Args:
        radio: The sections on the radio.
        devices: N, number of devices of a cell.
    """
    topology = radio.topology
    if topology.kind == "none":
        return None
    neighbours = len(topology.neighbour_positions)
    links = devices * len(cell_of(radio.channel, topology).access_points) * pairs_of_cells(radio)
    if links < MANY_CORRELATED:
        return None
    if topology.motion != "none" or not any(cell_of(radio.channel, topology).correlations_m):
        return None
    cells = f" in each of {1 + neighbours} cells" if neighbours else ""
    over = f", {links:,} links," if links > devices else ""
    return (
        f"topology.shadowing_correlation_m: correlated shadowing of {devices:,} devices{cells}{over} takes minutes "
        "before the first round; with 0 it is independent and takes no time"
    )


def base_height_m(channel: ChannelSettings, topology: TopologySettings) -> float:
    """Return the height of the base station: the configured one, or that of the path loss model, or 10 m."""
    return topology.base_height_m or PATH_LOSS[path_loss_of(channel, topology)].base_height_m or 10.0


def directions_of(antennas: AntennaSettings, devices: int, streams: Streams, placed: Drop | None) -> Directions:
    """Return the direction of every device of the run as seen from the array, that of an access point if there are
    several. A device's line of sight and its other
    paths share one direction."""
    zeros = np.zeros(devices)
    if antennas.angle == "broadside":
        return Directions(zeros, zeros)
    if placed is not None:
        return Directions(placed.azimuth_rad - math.radians(antennas.broadside_deg), placed.elevation_rad)
    uniforms = whole_population(streams, Purpose.ANGLE, devices)(1)[:, 0]
    return Directions(math.radians(antennas.sector_deg) * (uniforms - 0.5), zeros)


def array_of(antennas: AntennaSettings, points: int) -> AntennaArray:
    """Return the array of an access point, which has the antennas divided by the number of points."""
    geometry = antennas.geometry
    return geometry if points == 1 else replace(geometry, count=geometry.count // points)


def impairment_draws(streams: Streams, round_index: int, devices: Ids) -> dict[str, Draw]:
    """Return the random draws of this round for each impairment."""

    def draw(purpose: Purpose) -> Draw:
        return lambda count: device_uniforms.draw(streams, purpose, round_index, devices, count)

    return {name: draw(IMPAIRMENT_PURPOSES[name]) for name in IMPAIRMENTS}


def whole_population(streams: Streams, purpose: Purpose, devices: int) -> Draw:
    """Return per-run random draws for every device."""
    return lambda count: device_uniforms.draw(streams, purpose, None, np.arange(devices), count)
