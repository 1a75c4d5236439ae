"""What a radio cannot be, said in one line before anything runs."""

from __future__ import annotations

import os

from airfl.config import Settings
from airfl.errors import UserError
from airfl.radio.parts import (
    base_height_m,
    csi_parameters,
    grid_of,
    noise_std_of,
    policy_parameters,
    settings_of,
    statistics_of,
    topology_parameters,
)
from channels.csi import check_csi
from channels.fading import FADING_LAWS
from channels.power import POLICIES, check_policy
from channels.selective import SELECTIVE_MODELS, check
from channels.topology import check_topology

MEMORY_SHARE = 0.5
# Measured: a response, its estimate, precoders and what power control makes of them on the way.
BYTES_A_COEFFICIENT, BYTES_AN_ANTENNA = 180, 24


def check_radio(settings: Settings) -> None:
    """UserError for settings of the radio that contradict each other or leave a model's range."""
    grid = grid_of(settings)
    noise_std_of(settings)
    with settings_of("csi"):
        check_csi(csi_parameters(settings, grid))
    _check_topology(settings)
    _check_fading(settings)
    _check_power(settings)
    if settings.grid.waveform:
        _check_waveform(settings)
    if settings.privacy.csi_error == "quantile" and settings.channel.fading not in ("rayleigh", "tapped-line"):
        raise UserError(
            'privacy.csi_error: "quantile" is for Gaussian channels, channel.fading = rayleigh or tapped-line (given: '
            f'{settings.channel.fading!r}); choose "realised" or "unbounded"'
        )


def check_size(settings: Settings, entries: int, rows: int, blocks: int) -> None:
    """UserError if a round's channel responses would not fit. rows: devices whose channel is needed at once."""
    if settings.channel.fading not in SELECTIVE_MODELS and not settings.csi.timing_offset_s:
        return
    subcarriers = min(grid_of(settings).used_subcarriers, entries)
    each = BYTES_A_COEFFICIENT + BYTES_AN_ANTENNA * settings.antennas.count
    size = rows * blocks * subcarriers * each
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > MEMORY_SHARE * memory:
        raise UserError(
            f"channel.coherence: a round's channels of {rows:,} devices, {settings.antennas.count} antennas, "
            f"{blocks:,} blocks and {subcarriers:,} subcarriers take {size / 1e9:.3g} GB of {memory / 1e9:.3g} GB; "
            "take a longer coherence, fewer devices or fewer antennas"
        )


def _check_topology(settings: Settings) -> None:
    topology, channel = settings.topology, settings.channel
    if topology.kind == "none":
        return
    if channel.units != "physical":
        raise UserError(
            f'topology.kind: {topology.kind!r} gives path losses, which need channel.units = "physical" (given: '
            f"{channel.units!r})"
        )
    if channel.fading == "replay":
        raise UserError('topology.kind: replayed gains have their path loss in them; take topology.kind = "none"')
    with settings_of("topology"):
        check_topology(topology_parameters(settings), settings.run.devices)


def _check_fading(settings: Settings) -> None:
    channel = settings.channel
    if channel.fading not in SELECTIVE_MODELS:
        return
    with settings_of("channel"):
        check(
            SELECTIVE_MODELS[channel.fading],
            subcarriers=grid_of(settings).used_subcarriers,
            antennas=settings.antennas.count,
            delay_spread_s=channel.delay_spread_s,
            carrier_hz=channel.carrier_hz,
            speed_m_s=channel.speed_m_s,
            taps=max(channel.taps, 1),
            variation=channel.variation,
            positions=settings.topology.kind != "none",
            base_height_m=base_height_m(settings),
        )
    if channel.bounds == "redraw":
        raise UserError(f'channel.bounds: "redraw" is for flat laws ({", ".join(FADING_LAWS)}); take "clip"')


def _check_power(settings: Settings) -> None:
    power, fades = settings.power, statistics_of(settings)
    parameters = policy_parameters(settings)
    if power.average_over == "fading" and fades is None:
        raise UserError(f'power.average_over: the law of fading {settings.channel.fading!r} is not known; take "round"')
    with settings_of("power"):
        check_policy(power.policy, parameters, fades.inverse_power if fades else None)
    one_gain = settings.antennas.count == 1 or settings.antennas.combining == "first"
    if not one_gain and (power.average_over == "fading" or power.divide_by == "expected" or power.participation):
        raise UserError(
            "power.average_over, divide_by, participation: how combined antennas fade is not known; take one antenna, "
            'or "round", "active" and power.threshold'
        )
    if power.divide_by == "expected" and (fades is None or not POLICIES[power.policy].truncates):
        raise UserError(
            'power.divide_by: "expected" needs a policy with a threshold and a fading law that is known (given: '
            f'{power.policy!r}, {settings.channel.fading!r}); take "selected" or "active"'
        )


def _check_waveform(settings: Settings) -> None:
    channel = settings.channel
    allowed = [*FADING_LAWS, "replay", "tapped-line"]
    if channel.fading not in allowed:
        raise UserError(
            f"grid.waveform: taps on the sample grid are wanted, channel.fading = {', '.join(allowed)} (given: "
            f"{channel.fading!r})"
        )
    if settings.antennas.count > 1:
        raise UserError(f"grid.waveform: one receive antenna is wanted, not antennas.count = {settings.antennas.count}")
    if channel.coherence != "round":
        raise UserError(f'grid.waveform: channel.coherence = "round" is wanted, not {channel.coherence!r}')
    if settings.grid.used is not None:
        raise UserError("grid.waveform: all subcarriers carry entries; leave grid.used out")
    if settings.power.peak_db is not None and settings.power.peak == "clip":
        raise UserError('grid.waveform: power.peak = "clip" cuts entries; clip the waveform by grid.clip_db instead')
