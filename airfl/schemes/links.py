"""Build uplinks from the settings. Each builder takes only the parts and sections that it needs; `uplink_of` extracts
them from the full settings."""

from __future__ import annotations

import math
from typing import Literal

from airfl.config.digital import DigitalSettings
from airfl.config.privacy import PrivacySettings
from airfl.config.radio import AntennaSettings, ChannelSettings, PowerSettings
from airfl.config.settings import Settings
from airfl.errors import AlignmentError, UserError
from airfl.schemes.scheme import LinkKind
from airfl.uplinks import AnalogUplink, DigitalUplink, IdealUplink
from airfl.uplinks.control import PowerControl
from airfl.uplinks.radio.parts import grid_of, link_noise_std_of, noise_std_of, waveform_of
from airfl.uplinks.radio.power import power_policy
from airfl.uplinks.uplink import Uplink
from channels.antennas import Combiner
from channels.grid import OfdmaGrid
from channels.power import Policy
from channels.waveform import Waveform


def uplink_of(link: LinkKind, settings: Settings, privacy_bound: float = math.inf) -> Uplink:
    """Build the uplink of a run.

    Args:
        link: The kind of link.
        settings: The settings of the run.
        privacy_bound: The largest beta that privacy allows over an analog link.

    Raises UserError if the settings do not allow such a link.
    """
    grid, channel, power = grid_of(settings.grid), settings.channel, settings.power
    if link != "analog":
        check_antennas_alike(settings.antennas, channel, f"links that carry bits (scheme.link is {link})")
        of_bits = digital_uplink if link == "digital" else ideal_uplink
        return of_bits(settings.digital, grid, link_noise_std_of(channel, settings.grid), channel, power)
    check_announced(power, privacy_bound, settings.scheme.name)
    control = power_control(
        power,
        privacy_bound,
        policy=power_policy(settings.radio),
        limit=settings.power_limit,
        noise_std=noise_std_of(channel, settings.grid),
        combining=settings.antennas.combiner,
    )
    return analog_uplink(
        control,
        grid,
        channel,
        settings.privacy,
        waveform=waveform_of(settings.grid),
        tail=settings.csi_tail / settings.run.rounds,
        median_clip=settings.antennas.median_clip,
    )


def check_antennas_alike(antennas: AntennaSettings, channel: ChannelSettings, what: str) -> None:
    """Check that interference is alike on all antennas, without which rates are not known; raises UserError otherwise.

    Args:
        antennas: The section [antennas].
        channel: The section [channel].
        what: What needs the rates.
    """
    model = channel.interference_model
    if channel.interference_to_noise_db is None or model.gaussian or antennas.count == 1:
        return
    if model.across_antennas != "common":
        raise UserError(
            f"channel.interference_across_antennas: {model.across_antennas!r} is for analog links, but {what} need "
            f'interference that is alike on all {antennas.count} antennas; use "common"'
        )


def check_announced(power: PowerSettings, privacy_bound: float, scheme: str) -> None:
    """Check that `power.alignment = "schedule"` has a beta to announce; raises AlignmentError otherwise."""
    if power.alignment == "schedule" and math.isinf(min(_coefficient(power), privacy_bound)):
        raise AlignmentError(
            f'power.alignment: "schedule" needs a beta to announce, and scheme {scheme!r} has no privacy bound; set '
            'power.coefficient, or use "sample" or "population"'
        )


def power_control(
    power: PowerSettings,
    privacy_bound: float,
    *,
    policy: Policy,
    limit: Literal["round_energy", "transmit_power"],
    noise_std: float,
    combining: Combiner,
) -> PowerControl:
    """Build power control: alignment to the largest beta that power and `privacy_bound` allow. Policies other than the
    paper's (power.policy) keep to the same bounds.

    Args:
        power: The section [power].
        privacy_bound: The largest beta that privacy allows.
        policy: The power policy.
        limit: What P_i bounds.
        noise_std: sigma_0, standard deviation of the receiver noise on a real entry.
        combining: The receive combiner.
    """
    return PowerControl(
        policy=policy,
        limit=limit,
        noise_std=noise_std,
        combining=combining,
        privacy_bound=privacy_bound,
        divide_by=power.divide_by,
        strict=power.strict,
        peak_db=power.peak_db,
        peak=power.peak,
        alignment="sample" if power.alignment == "auto" else power.alignment,
        coefficient=_coefficient(power),
    )


def analog_uplink(
    control: PowerControl,
    grid: OfdmaGrid,
    channel: ChannelSettings,
    privacy: PrivacySettings,
    *,
    waveform: Waveform | None,
    tail: float,
    median_clip: float | None = None,
) -> AnalogUplink:
    """Build the analog uplink, on which all devices transmit at once.

    Args:
        control: Power control.
        grid: The grid of resource elements.
        channel: The section [channel].
        privacy: The section [privacy].
        waveform: OFDM modulation in time, None for the per-subcarrier model.
        tail: The part of delta that is spent per round on quantiles of the channel error.
        median_clip: Where decoded entries are clipped, in median absolute deviations; None for no clipping.
    """
    return AnalogUplink(
        grid=grid,
        control=control,
        noise_std=control.noise_std,
        waveform=waveform,
        tail=tail,
        noise=channel.noise,
        interference_to_noise_db=channel.interference_to_noise_db,
        interference=channel.interference_model,
        csi_error=privacy.csi_error,
        least_gain=channel.min_gain if channel.units == "normalised" else 0.0,
        raw_samples=privacy.observer == "server",
        median_clip=median_clip,
    )


def digital_uplink(
    digital: DigitalSettings, grid: OfdmaGrid, noise_std: float, channel: ChannelSettings, power: PowerSettings
) -> DigitalUplink:
    """Build the digital uplink: orthogonal OFDMA with the configured error model and allocation.

    Args:
        digital: The section [digital].
        grid: The grid of resource elements.
        noise_std: Square root of the noise energy on a resource element.
        channel: The section [channel].
        power: The section [power].
    """
    return DigitalUplink(
        grid=grid,
        allocation=digital.allocation_rule,
        error_model=digital.link_errors,
        noise_std=noise_std,
        concentrate=digital.power == "total",
        deadline_s=digital.deadline_s,
        secure_aggregation=digital.secure_aggregation,
        divide_by_received=power.divide_by == "active",
        interference_to_noise_db=channel.interference_to_noise_db,
        interference=channel.interference_model,
    )


def ideal_uplink(
    digital: DigitalSettings, grid: OfdmaGrid, noise_std: float, channel: ChannelSettings, power: PowerSettings
) -> IdealUplink:
    """Build the ideal uplink: error-free and orthogonal, charged at capacity. Arguments as in `digital_uplink`."""
    return IdealUplink(
        grid=grid,
        noise_std=noise_std,
        interference_to_noise_db=channel.interference_to_noise_db,
        interference=channel.interference_model,
        deadline_s=digital.deadline_s,
        divide_by_received=power.divide_by == "active",
    )


def _coefficient(power: PowerSettings) -> float:
    """Return the beta of a schedule, inf if none is configured."""
    return math.inf if power.coefficient is None else power.coefficient
