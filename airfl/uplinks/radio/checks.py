"""Checks of the radio settings before a run; violations raise errors of one line."""

from __future__ import annotations

import numpy as np

from airfl.config.blockage import BlockageSettings
from airfl.config.part_keys import name_of
from airfl.config.radio import (
    AntennaSettings,
    ChannelSettings,
    GridSettings,
    TopologySettings,
    path_loss_of,
)
from airfl.config.radio_sections import RadioSections
from airfl.errors import AlignmentError, UserError
from airfl.runtime.memory import machine_bytes
from airfl.selection import ChannelRule, SelectionRule
from airfl.uplinks.radio.laws import fading_law, has_bounds
from airfl.uplinks.radio.obstacles import check_blockage
from airfl.uplinks.radio.parts import (
    array_of,
    base_height_m,
    cell_of,
    grid_of,
    noise_std_of,
    pairs_of_cells,
    settings_of,
    surroundings_of,
    waveform_of,
)
from airfl.uplinks.radio.power import check_power
from channels.csi import Ageing
from channels.csi.measured import measured_over_subcarriers
from channels.fading import FlatFading, OwnChannel, Recorded, SelectiveFading, flat_parts
from channels.fading.registry import FADING_LAWS
from channels.fading.rician import Rician
from channels.selective import check
from channels.selective.scenario import Tr38901Scenario
from channels.selective.tapped_line import TappedLine, tap_spacing_s
from channels.topology import PATH_LOSS, check_topology

MEMORY_SHARE = 0.5
# Measured: a response, its estimate, precoders and the temporaries of power control.
BYTES_A_COEFFICIENT, BYTES_AN_ANTENNA = 180, 24
# Measured: the paths over an element of a surface to an antenna, and those to the element with their temporaries.
BYTES_A_REFLECTION, BYTES_AN_ELEMENT = 16, 50
# The square root of a correlation matrix, complex in double precision, and a copy of it.
BYTES_A_PAIR = 32
# A delay spread of 1 us over 400 MHz needs 1,400 taps.
MOST_TAPS = 4096


def check_radio(radio: RadioSections, devices: int) -> None:
    """Check that the radio settings are consistent and within the range of their models, without reading files. Raises
    UserError otherwise. devices: N."""
    grid = grid_of(radio.grid)
    noise_std_of(radio.channel, radio.grid)
    with settings_of("csi"):
        radio.csi.imperfections.check_within(surroundings_of(radio.channel, grid))
    _check_topology(radio.channel, radio.topology, devices)
    _check_fading(radio)
    check_blockage(radio)
    _check_antennas(radio.channel, radio.antennas)
    check_power(radio)
    _check_hardware(radio)
    if radio.topology.points > 1:
        _check_points(radio)
    if radio.surface.elements and radio.topology.kind != "none" and radio.topology.motion != "none":
        raise UserError(
            f"surface.elements: a surface is for devices that stay at their places, got topology.motion = "
            f'{radio.topology.motion!r}; use 0 elements, or topology.motion = "none"'
        )
    if radio.surface.elements:
        _check_surface(radio)
    if radio.grid.waveform:
        _check_waveform(radio)


def check_size(radio: RadioSections, entries: int, rows: int, blocks: int) -> None:
    """Check that a round's channel responses fit in memory; raises UserError otherwise. rows: devices whose channels
    are needed at once."""
    antennas = radio.antennas
    csi = radio.csi.imperfections
    spread = csi.timing.timing_offset_s or measured_over_subcarriers(csi.synchronisation)
    flat = not radio.channel.fading_model.selective and not spread
    subcarriers = 1 if flat else min(grid_of(radio.grid).used_subcarriers, entries)
    each = BYTES_A_COEFFICIENT + BYTES_AN_ANTENNA * antennas.count
    each += radio.surface.elements * (BYTES_A_REFLECTION * antennas.count + BYTES_AN_ELEMENT)
    rows *= pairs_of_cells(radio)
    size = rows * blocks * subcarriers * each
    if antennas.correlation != "independent":
        size += rows * antennas.count**2 * BYTES_A_PAIR
    memory = machine_bytes()
    if size > MEMORY_SHARE * memory:
        elements = radio.surface.elements
        over, fewer = (f", {elements:,} elements", ", fewer elements") if elements else ("", "")
        raise UserError(
            f"channel.coherence: the channels of {rows:,} devices, {antennas.count} antennas{over}, {blocks:,} blocks "
            f"and {subcarriers:,} subcarriers need {size / 1e9:.3g} GB, but this machine has {memory / 1e9:.3g} GB; "
            f"use a longer coherence, fewer devices{fewer} or fewer antennas"
        )


def _check_topology(channel: ChannelSettings, topology: TopologySettings, devices: int) -> None:
    _check_k_factor(channel, topology)
    if topology.kind == "none":
        return
    if channel.units != "physical":
        raise UserError(
            f'topology.kind: {topology.kind!r} has path loss, which needs channel.units = "physical" (given: '
            f"{channel.units!r})"
        )
    fading = channel.fading_model
    if not fading.drawn:
        gains = "replayed gains" if isinstance(fading, Recorded) else f"the gains of {name_of(fading)!r}"
        raise UserError(f'topology.kind: {gains} already include path loss; use topology.kind = "none"')
    if channel.fading_model.own_path_loss:
        _check_scenario(channel, topology)
    if topology.motion != "none":
        _check_motion(channel, topology)
    with settings_of("topology"):
        check_topology(cell_of(channel, topology), devices)


def _check_motion(channel: ChannelSettings, topology: TopologySettings) -> None:
    """Check that the channels of devices that move can be drawn."""
    fading = channel.fading_model
    if not channel.speed_m_s:
        raise UserError('topology.motion: needs channel.speed_m_s above 0, got 0; give one, or use "none"')
    if isinstance(fading, FlatFading):
        return
    if channel.variation == "constant":
        raise UserError(
            'channel.variation: "constant" is for devices that stand still, got topology.motion = '
            f'{topology.motion!r}; use "independent", or topology.motion = "none"'
        )
    if isinstance(fading, Tr38901Scenario):
        if fading.large_scale != "drop":
            raise UserError(
                'channel.large_scale: "redrawn" has K factors and spreads of no place, got topology.motion = '
                f'{topology.motion!r}; use "drop", or topology.motion = "none"'
            )
        if not all(cell_of(channel, topology).correlations_m):
            raise UserError(
                "topology.shadowing_correlation_m: must be positive, since the spreads of devices that move depend on "
                f"their shadowing, got 0 with topology.motion = {topology.motion!r}"
            )


def _check_scenario(channel: ChannelSettings, topology: TopologySettings) -> None:
    """Check that path loss and base station match a scenario of TR 38.901, which defines them together."""
    fading = channel.fading_model.name
    if path_loss_of(channel, topology) != fading:
        raise UserError(
            f"topology.path_loss: channel.fading = {fading!r} has the path loss and line of sight of its own scenario "
            f"(given: {topology.path_loss!r}); omit it"
        )
    low, high = PATH_LOSS[fading].table_heights_m
    if topology.base_height_m is not None and not low <= topology.base_height_m <= high:
        allowed = f"{low:g} m" if low == high else f"{low:g} to {high:g} m"
        raise UserError(
            f"topology.base_height_m: channel.fading = {fading!r} needs a base station height of {allowed}, got "
            f"{topology.base_height_m:g}"
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
            "these, or set K to a number"
        )


def _check_fading(radio: RadioSections) -> None:
    channel, topology, grid = radio.channel, radio.topology, radio.grid
    model, name = channel.fading_model, name_of(channel.fading)
    if not isinstance(model, SelectiveFading):
        if isinstance(model, FlatFading):
            _check_redraw(channel, topology, radio.blockage)
        _check_mean_gain(channel, grid)
        return
    _check_mean_gain(channel, grid)
    if model.needs_positions and topology.kind == "none":
        raise UserError(
            f"topology.kind: channel.fading = {name!r} needs device positions, got 'none'; use disc, annulus or "
            "coordinates"
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
        raise UserError(f'channel.bounds: "redraw" needs a flat fading law ({", ".join(FADING_LAWS)}); use "clip"')


def _check_antennas(channel: ChannelSettings, antennas: AntennaSettings) -> None:
    with settings_of("antennas.rows" if antennas.array == "rectangular" else "antennas"):
        _ = antennas.geometry
    if antennas.count > 1:
        _check_own_angles(channel, antennas)


def _check_own_angles(channel: ChannelSettings, antennas: AntennaSettings) -> None:
    """Check antenna settings that do not apply to models whose paths define their own angles."""
    fading, model = name_of(channel.fading), channel.fading_model
    if not (isinstance(model, SelectiveFading) and model.own_angles):
        return
    if antennas.correlation != "independent":
        raise UserError(
            f"antennas.correlation: the path angles of channel.fading = {fading!r} determine the correlation (given: "
            f"{antennas.correlation!r}); omit it, or use a flat law, tapped-line or a tdl"
        )
    if antennas.array == "circular":
        raise UserError(
            f'antennas.array: channel.fading = {fading!r} needs a "linear" or "rectangular" array, got \'circular\''
        )
    if model.needs_positions and antennas.angle != "device":
        raise UserError(
            f"antennas.angle: channel.fading = {fading!r} derives angles from positions (given: {antennas.angle!r}); "
            'use "device"'
        )


def _check_redraw(channel: ChannelSettings, topology: TopologySettings, blockage: BlockageSettings) -> None:
    """Check that the bounds leave some of the fading law, by drawing a gain."""
    law = fading_law(channel, topology, blockage)
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
    """Check that the mean gain lies within the bounds, without which the fading law would be a different one."""
    if has_bounds(channel, grid) and not channel.min_gain <= channel.mean_gain <= channel.max_gain:
        key = "min_gain" if channel.mean_gain < channel.min_gain else "max_gain"
        raise UserError(
            f"channel.mean_gain: must lie within the bounds on the gain, {channel.min_gain:g} to {channel.max_gain:g} "
            f"(given: {channel.mean_gain:g}); change it, or channel.{key}"
        )


def _check_ageing(channel: ChannelSettings, topology: TopologySettings, ageing: Ageing, model: SelectiveFading) -> None:
    """Check that ageing can be computed. It applies to diffuse paths only, and a response that also contains a line of
    sight does not separate the two."""
    if not (ageing.delay_s and channel.speed_m_s):
        return
    if model.line_of_sight and not (model.needs_positions and topology.los == "nlos"):
        remedy = 'topology.los = "nlos"' if model.needs_positions else "channel.fading = rician"
        raise UserError(
            f"csi.delay_s: ageing cannot be computed for channel.fading = {name_of(channel.fading)!r}, whose response "
            f"does not separate the line of sight from diffuse paths (given: {ageing.delay_s:g} s at "
            f"{channel.speed_m_s:g} m/s); use 0, or {remedy}"
        )


def _check_delays(section: GridSettings, model: SelectiveFading, spread_s: float) -> None:
    """Check that the delays fit in a useful symbol and that the number of taps is allowed."""
    grid = grid_of(section)
    useful_s, latest_s, taps = 1 / grid.spacing_hz, spread_s, 0
    if isinstance(model, TappedLine) and latest_s < useful_s:
        taps = model.taps_over(grid.used_subcarriers * grid.spacing_hz)
        if section.waveform:
            latest_s = tap_spacing_s(spread_s, taps) * (taps - 1)
    if latest_s >= useful_s:
        raise UserError(
            f"channel.delay_spread_s: {spread_s:g} s has delays of {latest_s:.3g} s, but delays must be below the "
            f"useful symbol, {useful_s:.6g} s"
        )
    if taps > MOST_TAPS:
        raise UserError(
            f"channel.taps: must be at most {MOST_TAPS:,}, got {taps:,} (0 uses as many as the delay spread needs over "
            "the used subcarriers)"
        )


def _check_hardware(radio: RadioSections) -> None:
    hardware, power = radio.hardware, radio.power
    with settings_of("hardware"):
        amplifiers = hardware.amplifiers
    if hardware.adc_bits is not None and radio.grid.waveform:
        raise UserError(
            f"hardware.adc_bits: a waveform is received without noise, which is added per element; take "
            f"grid.waveform = false (given: {hardware.adc_bits} bits)"
        )
    if hardware.adc_bits is not None and radio.antennas.count > 1:
        raise UserError(f"hardware.adc_bits: is for one receive antenna, got antennas.count = {radio.antennas.count}")
    if hardware.fronthaul_bits is not None:
        _check_fronthaul(radio)
    if amplifiers is None:
        return
    if power.peak_db is not None and power.peak == "clip":
        raise UserError(
            'hardware.amplifier: power.peak = "clip" clips entries before an amplifier that limits samples; take '
            'power.peak = "back-off", or leave power.peak_db out'
        )
    if radio.digital.power == "per-element":
        raise UserError(
            'hardware.amplifier: is for devices that send bits at their limit, digital.power = "total" (given: '
            '"per-element")'
        )


def _check_fronthaul(radio: RadioSections) -> None:
    """Check that what the antennas receive is known, as the noise of the fronthaul's converters depends on it."""
    channel, csi, bits = radio.channel, radio.csi.imperfections, radio.hardware.fronthaul_bits
    fading, flat = channel.fading_model, ", ".join(FADING_LAWS)
    remedy, synchronisation = "leave hardware.fronthaul_bits out", csi.synchronisation
    if not isinstance(fading, FlatFading):
        raise UserError(
            f"hardware.fronthaul_bits: needs a flat fading law, channel.fading = {flat} (given: "
            f"{name_of(channel.fading)!r}); use one of these, or {remedy}"
        )
    if csi.estimation.method != "perfect":
        raise UserError(
            f"csi.estimation: pilots that a fronthaul of {bits} bits carries are not modelled (given: "
            f'{csi.estimation.method!r}); use "perfect", or {remedy}'
        )
    moving = channel.variation == "jakes" and channel.coherence != "round"
    for key, present, given in (
        ("hardware.adc_bits", radio.hardware.adc_bits is not None, radio.hardware.adc_bits),
        ("hardware.amplifier", radio.hardware.amplifier != "none", radio.hardware.amplifier),
        ("grid.waveform", radio.grid.waveform, radio.grid.waveform),
        ("channel.coherence", moving, channel.coherence),
        ("csi.timing_offset_s", bool(csi.timing.timing_offset_s), csi.timing.timing_offset_s),
        ("csi.frequency_offset_hz", bool(csi.frequency.frequency_offset_hz), csi.frequency.frequency_offset_hz),
        ("csi.linewidth_hz, csi.oscillator", csi.oscillator.on, csi.oscillator.oscillator),
        ("csi.residual_file", synchronisation.file is not None, synchronisation.file),
    ):
        if present:
            raise UserError(
                f"{key}: is not modelled for samples that a fronthaul of {bits} bits carries, got {given!r}; omit it, "
                f"or {remedy}"
            )


def _check_points(radio: RadioSections) -> None:
    """Check that the channels to several access points can be drawn and are known."""
    channel, antennas, csi, points = radio.channel, radio.antennas, radio.csi.imperfections, radio.topology.points
    fading, given = channel.fading_model, f"{points} of topology.access_points"
    if antennas.count % points:
        raise UserError(f"antennas.count: must be a multiple of the {given}, got {antennas.count}")
    with settings_of("antennas.rows"):
        array_of(antennas, points)
    if not isinstance(fading, FlatFading):
        raise UserError(
            "topology.access_points: several need a flat fading law, channel.fading = "
            f"{', '.join(FADING_LAWS)} (given: {name_of(channel.fading)!r}); use one of these, or one access point"
        )
    if radio.surface.elements:
        raise UserError(
            f"surface.elements: a surface is for one base station, got {given}; use 0 elements, or one access point"
        )
    if radio.grid.downlink:
        raise UserError(
            f"grid.downlink: the broadcast of several access points is not modelled, got {given}; use false, or one "
            "access point"
        )
    if fading.line_of_sight and channel.variation == "jakes":
        raise UserError(
            f"channel.variation: the Doppler shifts of the lines of sight to {given} are not modelled (given: 'jakes' "
            f"and channel.fading = {name_of(channel.fading)!r}); use another one, or one access point"
        )
    if fading.line_of_sight and csi.ageing.delay_s and channel.speed_m_s:
        raise UserError(
            f"csi.delay_s: ageing is not modelled for the lines of sight to {given} (given: "
            f"{csi.ageing.delay_s:g} s at {channel.speed_m_s:g} m/s); use 0, or one access point"
        )


def _check_surface(radio: RadioSections) -> None:
    channel, csi, surface = radio.channel, radio.csi.imperfections, radio.surface.surface
    if not isinstance(channel.fading_model, FlatFading):
        raise UserError(
            f"surface.elements: needs a flat fading law, channel.fading = {', '.join(FADING_LAWS)} (given: "
            f"{name_of(channel.fading)!r}); use one of these, or 0 elements"
        )
    if radio.grid.waveform:
        raise UserError("surface.elements: does not support grid.waveform; use false, or 0 elements")
    if csi.ageing.delay_s and channel.speed_m_s:
        raise UserError(
            f"csi.delay_s: ageing is not modelled for the paths over a surface (given: {csi.ageing.delay_s:g} s at "
            f"{channel.speed_m_s:g} m/s); use 0, or surface.elements = 0"
        )
    if not surface.follows_channels:
        return
    which = f"surface.configuration = {surface.configuration!r}"
    if csi.estimation.method == "mmse":
        raise UserError(f'csi.estimation: "mmse" needs the mean power of the channels, which {which} changes; use "ls"')
    if radio.power.power_policy.statistical:
        raise UserError(
            f"power.policy: {name_of(radio.power.policy)!r} needs the statistics of the channels, which {which} "
            "changes; use another policy"
        )
    if radio.power.alignment == "population":
        raise AlignmentError(
            f'power.alignment: "population" needs the channels of all devices, but {which} is for the selected ones; '
            'use "sample" or "schedule"'
        )


def check_surface(radio: RadioSections, rule: SelectionRule, link: str) -> None:
    """Check that the phases of a surface can follow the channels of the selected devices; raises UserError.

    Args:
        radio: The sections of the radio.
        rule: Of the selection of devices.
        link: Kind of the uplink.
    """
    surface = radio.surface.surface
    if surface.follows_channels and link == "noncoherent":
        raise UserError(
            "surface.configuration: the noncoherent link sends no pilots, by which the phases could be set (given: "
            f'{surface.configuration!r}); use "random"'
        )
    if surface.follows_channels and isinstance(rule, ChannelRule) and rule.needs_csi:
        raise UserError(
            f"selection.kind: {rule.name!r} selects by the channels, but surface.configuration = "
            f'{surface.configuration!r} sets these for the selected devices; use uniform or poisson, or "random"'
        )


def _check_waveform(radio: RadioSections) -> None:
    channel, csi, antennas = radio.channel, radio.csi.imperfections, radio.antennas
    fading = channel.fading_model
    if fading.selective and not isinstance(fading, TappedLine):
        allowed = [*FADING_LAWS, "replay", "tapped-line"]
        raise UserError(
            f"grid.waveform: needs taps on the sample grid, that is channel.fading = {', '.join(allowed)} (given: "
            f"{name_of(channel.fading)!r})"
        )
    if isinstance(fading, OwnChannel) and fading.moves:
        raise UserError(f"grid.waveform: needs a static channel, got channel.fading = {fading!r}")
    if antennas.count > 1:
        raise UserError(f"grid.waveform: needs one receive antenna, got antennas.count = {antennas.count}")
    if channel.coherence != "round":
        raise UserError(f'grid.waveform: needs channel.coherence = "round", got {channel.coherence!r}')
    if radio.grid.used is not None:
        raise UserError("grid.waveform: all subcarriers carry entries; omit grid.used")
    if radio.power.peak_db is not None and radio.power.peak == "clip":
        raise UserError('grid.waveform: power.peak = "clip" clips entries; clip the waveform by grid.clip_db instead')
    if csi.phase.phase_std_rad or (csi.ageing.delay_s and channel.speed_m_s):
        raise UserError(
            "grid.waveform: does not support residual phase and ageing; set csi.phase_std_rad and csi.delay_s to 0 "
            f"(given: {csi.phase.phase_std_rad:g}, {csi.ageing.delay_s:g})"
        )
    if csi.oscillator.on:
        raise UserError(
            "grid.waveform: does not support phase noise; set csi.linewidth_hz to 0, leave csi.oscillator out (given: "
            f"{csi.oscillator.linewidth_hz:g}, {csi.oscillator.oscillator!r})"
        )
    if csi.synchronisation.exceeds_the_channel:
        raise UserError(
            "grid.waveform: does not support synchronisation errors of amplitude and phase; set csi.amplitude_std_db "
            f"to 0, leave csi.residual_file out (given: {csi.synchronisation.amplitude_std_db:g}, "
            f"{csi.synchronisation.file!r})"
        )
    waveform_of(radio.grid)
