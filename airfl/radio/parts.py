"""From the sections of the settings to what `channels` takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.config.parts import told
from airfl.config.radio import AntennaSettings, ChannelSettings, GridSettings, TopologySettings
from airfl.config.section import LEAST_SCALE, MOST_SCALE
from airfl.errors import UserError
from airfl.selection import Ids
from airfl.streams import Purpose, Streams
from channels.antennas import Directions
from channels.csi import IMPAIRMENTS, Surroundings
from channels.draws import Draw
from channels.fading import doppler_hz
from channels.grid import OfdmaGrid, default_symbol_duration_s, exact_grid, subcarriers_of, used_from
from channels.noise import thermal_noise_std
from channels.part import PartError
from channels.selective.scenario import Scenario
from channels.topology import PATH_LOSS, Drop, Topology

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
}
"""An impairment that is added needs a purpose of its own, so that it moves no other's draws."""


@contextmanager
def settings_of(section: str) -> Iterator[None]:
    """What `channels` refuses inside is the user's to mend, in that section."""
    try:
        yield
    except PartError as error:
        raise UserError(told(error, section)) from None
    except ValueError as error:
        raise UserError(f"{section}: {error}") from None


def grid_of(grid: GridSettings) -> OfdmaGrid:
    """The OFDMA grid."""
    with settings_of("grid"):
        subcarriers = grid.subcarriers if grid.resource_blocks is None else subcarriers_of(grid.resource_blocks)
        used = None if grid.used is None else used_from(grid.used, subcarriers=subcarriers)
        if grid.prefix != "mean":
            return exact_grid(subcarriers, grid.spacing_hz, grid.prefix, grid.packing, used)
        duration_s = grid.symbol_duration_s or default_symbol_duration_s(grid.spacing_hz)
        if not LEAST_SCALE <= duration_s <= MOST_SCALE:
            raise ValueError(
                f"a spacing_hz of {grid.spacing_hz:g} makes symbols of {duration_s:g} s; {LEAST_SCALE:g} to "
                f"{MOST_SCALE:g} s are wanted"
            )
        return OfdmaGrid(subcarriers, duration_s, grid.packing, grid.spacing_hz, used)


def noise_std_of(channel: ChannelSettings, grid: GridSettings) -> float:
    """sigma_0 of one observed real entry: as given, or in sqrt(W) from bandwidth and noise figure."""
    if channel.units == "normalised":
        return channel.noise_std
    with settings_of("channel"):
        return thermal_noise_std(grid.spacing_hz, channel.noise_figure_db, channel.temperature_k)


def link_noise_std_of(channel: ChannelSettings, grid: GridSettings) -> float:
    """Square root of N_0 = 2 sigma_0^2, the noise on a complex element, which links that carry bits are set against."""
    return math.sqrt(2.0) * noise_std_of(channel, grid)


def surroundings_of(channel: ChannelSettings, grid: OfdmaGrid) -> Surroundings:
    """What impairments need to know of channel and grid."""
    return Surroundings(doppler_hz(channel.speed_m_s, channel.carrier_hz), grid.spacing_hz, prefix_s(grid))


def prefix_s(grid: OfdmaGrid) -> float:
    """The shortest cyclic prefix of the grid's symbols."""
    if grid.numerology is not None:
        return grid.numerology.shortest_prefix_s
    return max(grid.symbol_duration_s - 1 / grid.spacing_hz, 0.0)


def waveform_of(section: GridSettings) -> Waveform | None:
    """How entries are modulated in time, if they are: the FFT is the next power of two."""
    if not section.waveform:
        return None
    from channels.waveform import Waveform

    grid = grid_of(section)
    size = 1 << (grid.used_subcarriers - 1).bit_length()
    prefix_samples = round(prefix_s(grid) * grid.spacing_hz * size)
    with settings_of("grid.waveform"):
        return Waveform(size, prefix_samples, grid.used_subcarriers, section.clip_db)


def cell_of(channel: ChannelSettings, topology: TopologySettings) -> Topology:
    """Where devices are, and what distance costs, of a topology that is not none."""
    return topology.cell(path_loss=path_loss_of(channel, topology), carrier_hz=channel.carrier_hz)


def path_loss_of(channel: ChannelSettings, topology: TopologySettings) -> str:
    """The path loss model: given, or the fading's own scenario, or UMi."""
    return topology.path_loss or (channel.fading_model.name if in_scenario(channel) else "umi")


def in_scenario(channel: ChannelSettings) -> bool:
    """Whether the fading is that of a cell of TR 38.901, which has a path loss of its name."""
    return isinstance(channel.fading_model, Scenario)


def base_height_m(channel: ChannelSettings, topology: TopologySettings) -> float:
    """Of the base station: given, or the path loss model's own, or 10 m."""
    return topology.base_height_m or PATH_LOSS[path_loss_of(channel, topology)].base_height_m or 10.0


def directions_of(antennas: AntennaSettings, devices: int, streams: Streams, placed: Drop | None) -> Directions:
    """From which the array sees every device of the run; one and the same for its line of sight and its other paths."""
    level = np.zeros(devices)
    if antennas.angle == "broadside":
        return Directions(level, level)
    if placed is not None:
        return Directions(placed.azimuth_rad - math.radians(antennas.broadside_deg), placed.elevation_rad)
    shares = whole_population(streams, Purpose.ANGLE, devices)(1)[:, 0]
    return Directions(math.radians(antennas.sector_deg) * (shares - 0.5), level)


def impairment_draws(streams: Streams, round_index: int, devices: Ids) -> dict[str, Draw]:
    """Each impairment's own numbers of this round."""

    def draw(purpose: Purpose) -> Draw:
        return lambda count: streams.device_uniforms(purpose, round_index, devices, count)

    return {name: draw(IMPAIRMENT_PURPOSES[name]) for name in IMPAIRMENTS}


def whole_population(streams: Streams, purpose: Purpose, devices: int) -> Draw:
    """Numbers of every device of the run, drawn once."""
    return lambda count: streams.device_uniforms(purpose, None, np.arange(devices), count)
