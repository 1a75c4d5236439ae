"""What a radio cannot be, said in one line before anything runs."""

from __future__ import annotations

import numpy as np

from airfl.config import Settings
from airfl.config.part_keys import name_of
from airfl.config.radio import POLICY
from airfl.errors import AlignmentError, UserError
from airfl.memory import machine_bytes
from airfl.radio.parts import (
    antenna_array,
    base_height_m,
    csi_parameters,
    fading_law,
    grid_of,
    has_bounds,
    in_scenario,
    no_law,
    noise_std_of,
    path_loss_of,
    power_policy,
    settings_of,
    spatial_correlation,
    statistics_of,
    topology_parameters,
    waveform_of,
)
from channels.antennas import check_array, check_correlation
from channels.csi import check_csi
from channels.fading import FlatFading, OwnChannel, Recorded, SelectiveFading, flat_parts
from channels.fading.registry import FADING_LAWS, FADINGS
from channels.fading.rician import Rician
from channels.part import parameters_of
from channels.power import POLICIES, Policy
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


def check_radio(settings: Settings) -> None:
    """UserError for settings of the radio that contradict each other or leave a model's range. Reads no file."""
    grid = grid_of(settings)
    noise_std_of(settings)
    with settings_of("csi"):
        check_csi(csi_parameters(settings, grid))
    _check_topology(settings)
    _check_fading(settings)
    _check_antennas(settings)
    _check_power(settings)
    if settings.grid.waveform:
        _check_waveform(settings)
    if settings.privacy.csi_error == "quantile" and not settings.channel.fading_model.gaussian:
        gaussian = " or ".join(name for name in FADINGS.classes.values() if FADINGS[name].gaussian)
        raise UserError(
            f'privacy.csi_error: "quantile" is for Gaussian channels, channel.fading = {gaussian} (given: '
            f'{name_of(settings.channel.fading)!r}); choose "realised" or "unbounded"'
        )


def check_size(settings: Settings, entries: int, rows: int, blocks: int) -> None:
    """UserError if a round's channel responses would not fit. rows: devices whose channel is needed at once."""
    flat = not settings.channel.fading_model.selective and not settings.csi.timing_offset_s
    subcarriers = 1 if flat else min(grid_of(settings).used_subcarriers, entries)
    each = BYTES_A_COEFFICIENT + BYTES_AN_ANTENNA * settings.antennas.count
    size = rows * blocks * subcarriers * each
    if settings.antennas.correlation != "independent":
        size += rows * settings.antennas.count**2 * BYTES_A_PAIR
    memory = machine_bytes()
    if size > MEMORY_SHARE * memory:
        raise UserError(
            f"channel.coherence: a round's channels of {rows:,} devices, {settings.antennas.count} antennas, "
            f"{blocks:,} blocks and {subcarriers:,} subcarriers take {size / 1e9:.3g} GB of {memory / 1e9:.3g} GB; "
            "take a longer coherence, fewer devices or fewer antennas"
        )


def _check_topology(settings: Settings) -> None:
    topology, channel = settings.topology, settings.channel
    _check_k_factor(settings)
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
    if in_scenario(settings):
        _check_scenario(settings)
    with settings_of("topology"):
        check_topology(topology_parameters(settings), settings.run.devices)


def _check_scenario(settings: Settings) -> None:
    """A cell of TR 38.901 has one set of tables: its lines of sight, path losses and base station are its own."""
    topology, fading = settings.topology, settings.channel.fading_model.name
    if path_loss_of(settings) != fading:
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


def _check_k_factor(settings: Settings) -> None:
    fading = settings.channel.fading_model
    if not (isinstance(fading, Rician) and fading.k == "tr38901"):
        return
    kind = settings.topology.kind
    if kind == "none" or PATH_LOSS[path_loss_of(settings)].k_factor_db is None:
        able = ", ".join(name for name, entry in PATH_LOSS.items() if entry.k_factor_db is not None)
        given = f"topology.kind = {kind!r}" if kind == "none" else f"topology.path_loss = {path_loss_of(settings)!r}"
        raise UserError(
            f'channel.rician_k: "tr38901" needs a topology with topology.path_loss = {able} (given: {given}); set '
            "these, or give K as a number"
        )


def _check_fading(settings: Settings) -> None:
    channel = settings.channel
    model, name = channel.fading_model, name_of(channel.fading)
    if not isinstance(model, SelectiveFading):
        if isinstance(model, FlatFading):
            _check_redraw(settings)
        _check_mean_gain(settings)
        return
    _check_mean_gain(settings)
    if model.needs_positions and settings.topology.kind == "none":
        raise UserError(
            f"topology.kind: channel.fading = {name!r} asks where the devices are; take disc, annulus or "
            "coordinates (given: 'none')"
        )
    with settings_of("channel"):
        check(
            model,
            subcarriers=grid_of(settings).used_subcarriers,
            antennas=settings.antennas.count,
            carrier_hz=channel.carrier_hz,
            speed_m_s=channel.speed_m_s,
            variation=channel.variation,
            positions=settings.topology.kind != "none",
            base_height_m=base_height_m(settings),
        )
    if model.spread_s is not None:
        _check_delays(settings, model, model.spread_s)
    _check_ageing(settings, model)
    if channel.bounds == "redraw":
        raise UserError(f'channel.bounds: "redraw" is for flat laws ({", ".join(FADING_LAWS)}); take "clip"')


def _check_antennas(settings: Settings) -> None:
    antennas = settings.antennas
    with settings_of("antennas.rows" if antennas.array == "rectangular" else "antennas"):
        check_array(antenna_array(settings))
        check_correlation(spatial_correlation(settings))
    if antennas.count == 1:
        return
    _check_own_angles(settings)
    correlated = antennas.correlation != "independent" and antennas.combining != "first"
    if settings.privacy.csi_error == "quantile" and correlated:
        raise UserError(
            'privacy.csi_error: "quantile" is for antennas whose errors are independent (given: antennas.correlation = '
            f'{antennas.correlation!r}); choose "realised" or "unbounded", or antennas.combining = "first"'
        )


def _check_own_angles(settings: Settings) -> None:
    """What does not reach a model whose paths have angles of their own."""
    antennas, fading = settings.antennas, name_of(settings.channel.fading)
    model = settings.channel.fading_model
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


def _check_redraw(settings: Settings) -> None:
    """A gain is drawn, which is refused where the bounds leave none of the law."""
    channel, law = settings.channel, fading_law(settings)
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


def _check_mean_gain(settings: Settings) -> None:
    """Bounds that do not hold the mean make another law of it than the one that was asked for."""
    channel = settings.channel
    if has_bounds(settings) and not channel.min_gain <= channel.mean_gain <= channel.max_gain:
        key = "min_gain" if channel.mean_gain < channel.min_gain else "max_gain"
        raise UserError(
            f"channel.mean_gain: must lie within the bounds on the gain, {channel.min_gain:g} to {channel.max_gain:g} "
            f"(given: {channel.mean_gain:g}); change it, or channel.{key}"
        )


def _check_ageing(settings: Settings, model: SelectiveFading) -> None:
    """What ages is diffuse: of a response that holds a line of sight as well, nothing says which part is which."""
    channel, csi = settings.channel, settings.csi
    if not (csi.delay_s and channel.speed_m_s):
        return
    if model.line_of_sight and not (model.needs_positions and settings.topology.los == "nlos"):
        cure = 'topology.los = "nlos"' if model.needs_positions else "channel.fading = rician"
        raise UserError(
            f"csi.delay_s: ageing cannot be computed for channel.fading = {name_of(channel.fading)!r}, whose response "
            f"does not tell its line of sight from diffuse paths (given: {csi.delay_s:g} s at {channel.speed_m_s:g} "
            f"m/s); take 0, or {cure}"
        )


def _check_delays(settings: Settings, model: SelectiveFading, spread_s: float) -> None:
    """What no symbol holds: a spread beyond it, a path that a waveform of that symbol has no place for."""
    grid = grid_of(settings)
    useful_s, latest_s, taps = 1 / grid.spacing_hz, spread_s, 0
    if isinstance(model, TappedLine) and latest_s < useful_s:
        taps = model.taps_over(grid.used_subcarriers * grid.spacing_hz)
        if settings.grid.waveform:
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


def _check_power(settings: Settings) -> None:
    power, fades = settings.power, statistics_of(settings)
    if power.spread == "message" and settings.channel.units != "physical":
        raise UserError(
            'power.spread: "message" needs channel.units = "physical", where power is in dBm (given: '
            f'{settings.channel.units!r}); take "band"'
        )
    name, given = name_of(power.policy), power.power_policy
    if power.participation is not None and "threshold" not in given.values():
        raise UserError(
            f"power.participation: power policy {name!r} has no threshold to set by it (given: "
            f"{power.participation}); leave it out, or choose one of {_readers('threshold')}"
        )
    policy = power_policy(settings)
    if policy.over_fading and fades is None:
        raise UserError(f'power.average_over: {no_law(settings)}; take "round"')
    for key, readers in POLICY.foreign(power):
        if not (key == "coefficient" and power.alignment == "schedule"):
            raise UserError(
                f"power: power policy {name!r} takes no {key}: leave it out, or choose one of {', '.join(readers)}"
            )
    if fades is not None:
        with settings_of("power"):
            policy.check_fades(fades.inverse_power)
    one_gain = settings.antennas.count == 1 or settings.antennas.combining == "first"
    for key, asked, remedy in (
        ("average_over", policy.over_fading, 'take "round"'),
        ("divide_by", power.divide_by == "expected", 'take "active"'),
        ("participation", power.participation is not None, "give power.threshold"),
    ):
        if asked and not one_gain:
            raise UserError(
                f"power.{key}: how combined antennas fade is not known (given: antennas.count = "
                f"{settings.antennas.count}); {remedy}, or one antenna"
            )
    _check_alignment(settings, policy, one_gain)
    if power.divide_by == "active" and settings.selection.rule.sampling == "poisson":
        raise UserError(
            'power.divide_by: "active" tells how many a Poisson sample has, which no privacy figure allows for; take '
            '"selected" or "expected", or another selection.kind'
        )
    if power.divide_by == "expected" and fades is None and policy.truncates:
        raise UserError(f'power.divide_by: {no_law(settings)}; take "selected" or "active"')
    if power.divide_by == "expected" and not policy.truncates:
        raise UserError(
            f'power.divide_by: "expected" needs a policy with a threshold (given: {name!r}); take "selected" '
            'or "active"'
        )


def _readers(parameter: str) -> str:
    """Names of the policies that have a parameter of that name."""
    return ", ".join(name for name, one in POLICIES.items() if parameter in (own.name for own in parameters_of(one)))


def _check_alignment(settings: Settings, policy: Policy, one_gain: bool) -> None:
    power = settings.power
    if power.alignment in ("auto", "sample"):
        return
    if not (policy.announces and policy.one_by_one):
        able = ", ".join(name for name, one in POLICIES.items() if one.announces and one.one_by_one)
        raise AlignmentError(
            f"power.alignment: policy {name_of(power.policy)!r} takes beta from the devices that send (given: "
            f"{power.alignment!r}); take sample, or power.policy = {able}"
        )
    if power.alignment == "population" and policy.target is not None:
        raise AlignmentError(
            f"power.coefficient: power.alignment = 'population' takes beta from the channels (given: "
            f"{policy.target:g}); take schedule, or leave the coefficient out"
        )
    if power.alignment == "population" and not one_gain:
        raise AlignmentError(
            "power.alignment: combined antennas have another gain for every set of devices (given: antennas.count = "
            f'{settings.antennas.count}); take schedule, antennas.combining = "first", or one antenna'
        )


def _check_waveform(settings: Settings) -> None:
    channel = settings.channel
    fading = channel.fading_model
    if fading.selective and not isinstance(fading, TappedLine):
        allowed = [*FADING_LAWS, "replay", "tapped-line"]
        raise UserError(
            f"grid.waveform: taps on the sample grid are wanted, channel.fading = {', '.join(allowed)} (given: "
            f"{name_of(channel.fading)!r})"
        )
    if isinstance(fading, OwnChannel) and fading.moves:
        raise UserError(f"grid.waveform: a channel that stands still is wanted, not channel.fading = {fading!r}")
    if settings.antennas.count > 1:
        raise UserError(f"grid.waveform: one receive antenna is wanted, not antennas.count = {settings.antennas.count}")
    if channel.coherence != "round":
        raise UserError(f'grid.waveform: channel.coherence = "round" is wanted, not {channel.coherence!r}')
    if settings.grid.used is not None:
        raise UserError("grid.waveform: all subcarriers carry entries; leave grid.used out")
    if settings.power.peak_db is not None and settings.power.peak == "clip":
        raise UserError('grid.waveform: power.peak = "clip" cuts entries; clip the waveform by grid.clip_db instead')
    if settings.csi.phase_std_rad or (settings.csi.delay_s and channel.speed_m_s):
        raise UserError(
            "grid.waveform: residual phase and ageing are not made in time; take csi.phase_std_rad and csi.delay_s 0 "
            f"(given: {settings.csi.phase_std_rad:g}, {settings.csi.delay_s:g})"
        )
    waveform_of(settings)
