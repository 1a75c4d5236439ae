"""From the sections of the settings to what `channels` takes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.config.part_keys import name_of
from airfl.config.radio import AntennaSettings, ChannelSettings, GridSettings, TopologySettings
from airfl.config.radio_sections import RadioSections
from airfl.config.section import LEAST_SCALE, MOST_SCALE
from airfl.errors import UserError
from airfl.selection import Ids
from airfl.streams import Purpose, Streams
from channels.antennas import Directions
from channels.csi import IMPAIRMENTS, Surroundings
from channels.draws import Draw
from channels.fading import (
    FadeStatistics,
    FadingLaw,
    FlatFading,
    Recorded,
    Replay,
    SelectiveFading,
    VariableError,
    bounded,
    check_law,
    doppler_hz,
    fade_statistics,
)
from channels.fading.gains import Bounds
from channels.fading.rayleigh import Rayleigh
from channels.fading.rician import Rician
from channels.grid import OfdmaGrid, default_symbol_duration_s, exact_grid, subcarriers_of, used_from
from channels.noise import thermal_noise_std
from channels.part import is_built_in
from channels.power import Policy
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

# Shares of fades closer than that are the same; channels.fading keeps a threshold half as far from a gain of many.
SHARE_ACCURACY = 2e-6
# Bounds that move the mean gain by a larger share are told.
MOST_MOVED = 0.1


@contextmanager
def settings_of(section: str) -> Iterator[None]:
    """What `channels` refuses inside is the user's to mend, in that section."""
    try:
        yield
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


def fading_law(channel: ChannelSettings, topology: TopologySettings) -> FadingLaw | None:
    """The flat law of all devices; None where the channel is replayed or selective, or they have laws of their own."""
    fading = channel.fading_model
    if not isinstance(fading, FlatFading) or has_own_k(channel, topology):
        return None
    if isinstance(fading, Rician) and topology.kind != "none" and topology.los == "nlos":
        return _law(Rayleigh())
    with settings_of("channel"):
        return _law(fading)


# Kept, as a run asks for its law several times, and the moments of a bounded one are integrals.
@functools.lru_cache(maxsize=64)
def _law(fading: FlatFading) -> FadingLaw:
    law = fading.law()
    if not is_built_in(fading):
        check_law(law, repr(fading))
    return law


@functools.lru_cache(maxsize=64)
def _bounded(law: FadingLaw, low: float, high: float, bounds: Bounds) -> FadingLaw:
    return bounded(law, low, high, bounds)


def has_own_k(channel: ChannelSettings, topology: TopologySettings) -> bool:
    """Whether a device's Rician law depends on where it is: on its line of sight, or on a K that is its own."""
    fading = channel.fading_model
    if not isinstance(fading, Rician):
        return False
    if fading.k == "tr38901":
        return topology.los != "nlos"
    if topology.kind == "none" or topology.los == "nlos":
        return False
    return fading.k > 0 and topology.los == "probability" and path_loss_of(channel, topology) != "log-distance"


def k_factors(channel: ChannelSettings, topology: TopologySettings, placed: Drop) -> Array | None:
    """K of every device's Rician law, [N]: 0 without line of sight; None where all have one law."""
    fading = channel.fading_model
    if not (isinstance(fading, Rician) and has_own_k(channel, topology)):
        return None
    if fading.k == "tr38901":
        return placed.k_factor
    return np.where(placed.line_of_sight, fading.k, 0.0)


def no_law(channel: ChannelSettings, topology: TopologySettings) -> str:
    """Why there are no statistics of all devices' fading."""
    if has_own_k(channel, topology):
        return (
            "devices of the cell have different K, by line of sight or drawn (for one law of all set topology.los to "
            "los or nlos, and channel.rician_k to a number)"
        )
    return f"the law of fading {name_of(channel.fading)!r} is not known"


def replay_of(channel: ChannelSettings, *, rounds: int, devices: int, antennas: int) -> Replay | None:
    """The recorded gains; None where the channel is not replayed."""
    fading = channel.fading_model
    if not isinstance(fading, Recorded):
        return None
    with settings_of("channel.replay_file"):
        try:
            return fading.read(rounds=rounds, devices=devices, antennas=antennas)
        except VariableError as error:
            raise UserError(f"channel.replay_variable: {error}") from None


def power_policy(radio: RadioSections) -> Policy:
    """The power policy; a wanted participation becomes the threshold that gives it."""
    power, policy = radio.power, radio.power.power_policy
    changes: dict[str, float | None] = {}
    if power.participation is not None:
        fades = statistics_of(radio)
        if fades is None:
            raise UserError(f"power.participation: {no_law(radio.channel, radio.topology)}; give power.threshold")
        changes["threshold"] = _threshold_for(power.participation, fades)
    if power.alignment == "schedule":  # its coefficient is announced, and no aim of the policy's own
        changes["coefficient"] = None
    with settings_of("power"):
        return replace(policy, **{name: value for name, value in changes.items() if name in policy.values()})


def _threshold_for(share: float, fades: FadeStatistics) -> float:
    """The threshold that this share of fades reaches; UserError where bounds put so many on one gain that none does."""
    threshold = fades.threshold_for(share)
    found = fades.exceedance(threshold)
    if found > share + SHARE_ACCURACY:
        fewer = fades.exceedance(threshold * (1 + 4 * SHARE_ACCURACY))
        offered = f"{found:.6g} or {fewer:.6g}" if fewer > 0 else f"{found:.6g}"
        raise UserError(
            f"power.participation: {share:g} of fades cannot be told by a threshold, as {found - fewer:.3g} have the "
            f"same gain (channel.bounds, channel.fading); ask for {offered}, or give power.threshold"
        )
    return threshold


def gain_law(radio: RadioSections) -> FadingLaw | None:
    """The law of one coefficient's |h| as bounded, over its mean before bounds; None where it is not known (replayed
    gains, Sionna's models) or devices have laws of their own."""
    channel, law = radio.channel, fading_law(radio.channel, radio.topology)
    mean_gain, fading = channel.mean_gain, channel.fading_model
    if isinstance(fading, SelectiveFading) and fading.gaussian:  # every subcarrier fades so, and mean_gain is its rms
        law = _law(Rayleigh())
        mean_gain /= math.sqrt(law.mean_square)
    if law is None or not has_bounds(channel, radio.grid):
        return law
    with settings_of("channel.bounds"):
        return _bounded(law, channel.min_gain / mean_gain, channel.max_gain / mean_gain, channel.bounds)


def has_bounds(channel: ChannelSettings, grid: GridSettings) -> bool:
    """Whether gains are kept within channel.min_gain and channel.max_gain: not in physical units, not as recorded, and
    not on the taps that a waveform goes through."""
    fading = channel.fading_model
    through_taps = grid.waveform and not isinstance(fading, FlatFading)
    return channel.units == "normalised" and fading.drawn and not through_taps


def bounds_factor(radio: RadioSections) -> float:
    """What the bounds make of the mean power E|h|^2, over what it is without them; 1 where the law is not known."""
    law, before = gain_law(radio), fading_law(radio.channel, radio.topology) or _law(Rayleigh())
    return law.mean_square / before.mean_square if law else 1.0


def cut_by_bounds(radio: RadioSections) -> str | None:
    """A sentence where the bounds move the mean gain by more than a tenth; one outside them is refused."""
    channel = radio.channel
    law = gain_law(radio) if channel.min_gain <= channel.mean_gain <= channel.max_gain else None
    if law is None or abs(law.mean - 1) <= MOST_MOVED:
        return None
    return (
        f"channel.mean_gain is {channel.mean_gain:g} before the bounds, and {law.mean * channel.mean_gain:.3g} within "
        f"them (channel.min_gain {channel.min_gain:g}, channel.max_gain {channel.max_gain:g}, {channel.bounds})"
    )


def statistics_of(radio: RadioSections) -> FadeStatistics | None:
    """Of the fading of one coefficient, as bounded; None where its law is not known (replayed gains, Sionna's
    models) or devices have laws of their own."""
    law = gain_law(radio)
    return fade_statistics(law) if law else None


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
