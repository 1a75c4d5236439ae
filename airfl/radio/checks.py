"""What a radio cannot be, said in one line before anything runs."""

from __future__ import annotations

import numpy as np

from airfl.config.part_keys import name_of
from airfl.config.radio import AntennaSettings, ChannelSettings, GridSettings, TopologySettings
from airfl.config.radio_sections import RadioSections
from airfl.errors import UserError
from airfl.memory import machine_bytes
from airfl.radio.laws import fading_law, has_bounds
from airfl.radio.parts import (
    base_height_m,
    cell_of,
    grid_of,
    in_scenario,
    noise_std_of,
    path_loss_of,
    settings_of,
    surroundings_of,
    waveform_of,
)
from airfl.radio.power import check_power
from channels.csi import Ageing
from channels.fading import FlatFading, OwnChannel, Recorded, SelectiveFading, flat_parts
from channels.fading.registry import FADING_LAWS
from channels.fading.rician import Rician
from channels.selective import check
from channels.selective.tapped_line import TappedLine, tap_spacing_s
from channels.topology import PATH_LOSS, check_topology

MEMORY_SHARE = 0.5
# Measured: a response, its estimate, precoders and what power control makes of them on the way.
BYTES_A_COEFFICIENT, BYTES_AN_ANTENNA = 180, 24
# A correlation matrix's square root, complex, in double precision, and its copy.
BYTES_A_PAIR = 32
# A delay spread of 1 us over 400 MHz takes 1,400.
MOST_TAPS = 4096


def check_radio(radio: RadioSections, devices: int) -> None:
    """UserError for a radio of so many devices that contradicts itself or leaves a model's range. Reads no file."""
    grid = grid_of(radio.grid)
    noise_std_of(radio.channel, radio.grid)
    with settings_of("csi"):
        radio.csi.imperfections.check_within(surroundings_of(radio.channel, grid))
    _check_topology(radio.channel, radio.topology, devices)
    _check_fading(radio)
    _check_antennas(radio.channel, radio.antennas)
    check_power(radio)
    if radio.grid.waveform:
        _check_waveform(radio)


def check_size(radio: RadioSections, entries: int, rows: int, blocks: int) -> None:
    """UserError if a round's channel responses would not fit. rows: devices whose channel is needed at once."""
    antennas = radio.antennas
    flat = not radio.channel.fading_model.selective and not radio.csi.imperfections.timing.timing_offset_s
    subcarriers = 1 if flat else min(grid_of(radio.grid).used_subcarriers, entries)
    each = BYTES_A_COEFFICIENT + BYTES_AN_ANTENNA * antennas.count
    size = rows * blocks * subcarriers * each
    if antennas.correlation != "independent":
        size += rows * antennas.count**2 * BYTES_A_PAIR
    memory = machine_bytes()
    if size > MEMORY_SHARE * memory:
        raise UserError(
            f"channel.coherence: a round's channels of {rows:,} devices, {antennas.count} antennas, "
            f"{blocks:,} blocks and {subcarriers:,} subcarriers take {size / 1e9:.3g} GB of {memory / 1e9:.3g} GB; "
            "take a longer coherence, fewer devices or fewer antennas"
        )


def _check_topology(channel: ChannelSettings, topology: TopologySettings, devices: int) -> None:
    _check_k_factor(channel, topology)
    if topology.kind == "none":
        return
    if channel.units != "physical":
        raise UserError(
            f'topology.kind: {topology.kind!r} gives path losses, which need channel.units = "physical" (given: '
            f"{channel.units!r})"
        )
    fading = channel.fading_model
    if not fading.drawn:
        what = "replayed gains have" if isinstance(fading, Recorded) else f"the gains of {name_of(fading)!r} have"
        raise UserError(f'topology.kind: {what} their path loss in them; take topology.kind = "none"')
    if in_scenario(channel):
        _check_scenario(channel, topology)
    with settings_of("topology"):
        check_topology(cell_of(channel, topology), devices)


def _check_scenario(channel: ChannelSettings, topology: TopologySettings) -> None:
    """A cell of TR 38.901 has one set of tables: its lines of sight, path losses and base station are its own."""
    fading = channel.fading_model.name
    if path_loss_of(channel, topology) != fading:
        raise UserError(
            f"topology.path_loss: channel.fading = {fading!r} has the path loss and the lines of sight of its own cell "
            f"(given: {topology.path_loss!r}); leave it out, or take {fading!r}"
        )
    low, high = PATH_LOSS[fading].table_heights_m
    if topology.base_height_m is not None and not low <= topology.base_height_m <= high:
        allowed = f"{low:g} m" if low == high else f"{low:g} to {high:g} m"
        raise UserError(
            f"topology.base_height_m: the base station of channel.fading = {fading!r} is at {allowed} (given: "
            f"{topology.base_height_m:g}); leave it out, or keep to that"
        )


def _check_k_factor(channel: ChannelSettings, topology: TopologySettings) -> None:
    fading = channel.fading_model
    if not (isinstance(fading, Rician) and fading.k == "tr38901"):
        return
    kind, model = topology.kind, path_loss_of(channel, topology)
    if kind == "none" or PATH_LOSS[model].k_factor_db is None:
        able = ", ".join(name for name, entry in PATH_LOSS.items() if entry.k_factor_db is not None)
        given = f"topology.kind = {kind!r}" if kind == "none" else f"topology.path_loss = {model!r}"
        raise UserError(
            f'channel.rician_k: "tr38901" needs a topology with topology.path_loss = {able} (given: {given}); set '
            "these, or give K as a number"
        )


def _check_fading(radio: RadioSections) -> None:
    channel, topology, grid = radio.channel, radio.topology, radio.grid
    model, name = channel.fading_model, name_of(channel.fading)
    if not isinstance(model, SelectiveFading):
        if isinstance(model, FlatFading):
            _check_redraw(channel, topology)
        _check_mean_gain(channel, grid)
        return
    _check_mean_gain(channel, grid)
    if model.needs_positions and topology.kind == "none":
        raise UserError(
            f"topology.kind: channel.fading = {name!r} asks where the devices are; take disc, annulus or "
            "coordinates (given: 'none')"
        )
    with settings_of("channel"):
        check(
            model,
            subcarriers=grid_of(grid).used_subcarriers,
            antennas=radio.antennas.count,
            carrier_hz=channel.carrier_hz,
            speed_m_s=channel.speed_m_s,
            variation=channel.variation,
            positions=topology.kind != "none",
            base_height_m=base_height_m(channel, topology),
        )
    if model.spread_s is not None:
        _check_delays(grid, model, model.spread_s)
    _check_ageing(channel, topology, radio.csi.imperfections.ageing, model)
    if channel.bounds == "redraw":
        raise UserError(f'channel.bounds: "redraw" is for flat laws ({", ".join(FADING_LAWS)}); take "clip"')


def _check_antennas(channel: ChannelSettings, antennas: AntennaSettings) -> None:
    with settings_of("antennas.rows" if antennas.array == "rectangular" else "antennas"):
        _ = antennas.geometry
    if antennas.count > 1:
        _check_own_angles(channel, antennas)


def _check_own_angles(channel: ChannelSettings, antennas: AntennaSettings) -> None:
    """What does not reach a model whose paths have angles of their own."""
    fading, model = name_of(channel.fading), channel.fading_model
    if not (isinstance(model, SelectiveFading) and model.own_angles):
        return
    if antennas.correlation != "independent":
        raise UserError(
            f"antennas.correlation: the angles of the paths of channel.fading = {fading!r} say how antennas are "
            f"correlated (given: {antennas.correlation!r}); leave it out, or take a flat law, tapped-line or a tdl"
        )
    if antennas.array == "circular":
        raise UserError(
            f"antennas.array: channel.fading = {fading!r} takes panels, linear or rectangular (given: 'circular'); "
            "take one of these"
        )
    if model.needs_positions and antennas.angle != "device":
        raise UserError(
            f"antennas.angle: channel.fading = {fading!r} takes angles from positions (given: {antennas.angle!r}); "
            'take "device"'
        )


def _check_redraw(channel: ChannelSettings, topology: TopologySettings) -> None:
    """A gain is drawn, which is refused where the bounds leave none of the law."""
    law = fading_law(channel, topology)
    if law is None or channel.bounds == "clip" or channel.units == "physical":
        return
    with settings_of("channel.bounds"):
        flat_parts(
            law,
            np.ones((1, 1), dtype=np.complex128),
            np.zeros(1),
            scale=channel.mean_gain,
            min_gain=channel.min_gain,
            max_gain=channel.max_gain,
            bounds=channel.bounds,
        )


def _check_mean_gain(channel: ChannelSettings, grid: GridSettings) -> None:
    """Bounds that do not hold the mean make another law of it than the one that was asked for."""
    if has_bounds(channel, grid) and not channel.min_gain <= channel.mean_gain <= channel.max_gain:
        key = "min_gain" if channel.mean_gain < channel.min_gain else "max_gain"
        raise UserError(
            f"channel.mean_gain: must lie within the bounds on the gain, {channel.min_gain:g} to {channel.max_gain:g} "
            f"(given: {channel.mean_gain:g}); change it, or channel.{key}"
        )


def _check_ageing(channel: ChannelSettings, topology: TopologySettings, ageing: Ageing, model: SelectiveFading) -> None:
    """What ages is diffuse: of a response that holds a line of sight as well, nothing says which part is which."""
    if not (ageing.delay_s and channel.speed_m_s):
        return
    if model.line_of_sight and not (model.needs_positions and topology.los == "nlos"):
        cure = 'topology.los = "nlos"' if model.needs_positions else "channel.fading = rician"
        raise UserError(
            f"csi.delay_s: ageing cannot be computed for channel.fading = {name_of(channel.fading)!r}, whose response "
            f"does not tell its line of sight from diffuse paths (given: {ageing.delay_s:g} s at {channel.speed_m_s:g} "
            f"m/s); take 0, or {cure}"
        )


def _check_delays(section: GridSettings, model: SelectiveFading, spread_s: float) -> None:
    """What no symbol holds: a spread beyond it, a path that a waveform of that symbol has no place for."""
    grid = grid_of(section)
    useful_s, latest_s, taps = 1 / grid.spacing_hz, spread_s, 0
    if isinstance(model, TappedLine) and latest_s < useful_s:
        taps = model.taps_over(grid.used_subcarriers * grid.spacing_hz)
        if section.waveform:
            latest_s = tap_spacing_s(spread_s, taps) * (taps - 1)
    if latest_s >= useful_s:
        raise UserError(
            f"channel.delay_spread_s: {spread_s:g} s has delays of {latest_s:.3g} s; they must lie below "
            f"the useful symbol, {useful_s:.6g} s"
        )
    if taps > MOST_TAPS:
        raise UserError(
            f"channel.taps: {taps:,} taps, at most {MOST_TAPS:,} are allowed (0 takes as many as the delay spread "
            "needs over the used subcarriers); give fewer"
        )


def _check_waveform(radio: RadioSections) -> None:
    channel, csi, antennas = radio.channel, radio.csi.imperfections, radio.antennas
    fading = channel.fading_model
    if fading.selective and not isinstance(fading, TappedLine):
        allowed = [*FADING_LAWS, "replay", "tapped-line"]
        raise UserError(
            f"grid.waveform: taps on the sample grid are wanted, channel.fading = {', '.join(allowed)} (given: "
            f"{name_of(channel.fading)!r})"
        )
    if isinstance(fading, OwnChannel) and fading.moves:
        raise UserError(f"grid.waveform: a channel that stands still is wanted, not channel.fading = {fading!r}")
    if antennas.count > 1:
        raise UserError(f"grid.waveform: one receive antenna is wanted, not antennas.count = {antennas.count}")
    if channel.coherence != "round":
        raise UserError(f'grid.waveform: channel.coherence = "round" is wanted, not {channel.coherence!r}')
    if radio.grid.used is not None:
        raise UserError("grid.waveform: all subcarriers carry entries; leave grid.used out")
    if radio.power.peak_db is not None and radio.power.peak == "clip":
        raise UserError('grid.waveform: power.peak = "clip" cuts entries; clip the waveform by grid.clip_db instead')
    if csi.phase.phase_std_rad or (csi.ageing.delay_s and channel.speed_m_s):
        raise UserError(
            "grid.waveform: residual phase and ageing are not made in time; take csi.phase_std_rad and csi.delay_s 0 "
            f"(given: {csi.phase.phase_std_rad:g}, {csi.ageing.delay_s:g})"
        )
    waveform_of(radio.grid)
