"""The uplinks of the settings. Each is made of the parts and sections that it needs, which `uplink_of` takes from all
settings."""

from __future__ import annotations

import math
from typing import Literal

from airfl.config.digital import DigitalSettings
from airfl.config.radio import ChannelSettings, PowerSettings
from airfl.config.settings import PrivacySettings, Settings
from airfl.errors import AlignmentError
from airfl.radio.parts import grid_of, link_noise_std_of, noise_std_of, waveform_of
from airfl.radio.power import power_policy
from airfl.schemes.scheme import LinkKind
from airfl.uplinks import AnalogUplink, DigitalUplink, IdealUplink
from airfl.uplinks.control import PowerControl
from airfl.uplinks.uplink import Uplink
from channels.antennas import Combiner
from channels.grid import OfdmaGrid
from channels.power import Policy
from channels.waveform import Waveform


def uplink_of(link: LinkKind, settings: Settings, privacy_bound: float = math.inf) -> Uplink:
    """What carries the messages of a run.

    Args:
        link: Its kind.
        settings: Of the run.
        privacy_bound: The largest beta that privacy allows over an analog link.

    Raises UserError for settings that make no such link.
    """
    grid, channel, power = grid_of(settings.grid), settings.channel, settings.power
    if link != "analog":
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
    )


def check_announced(power: PowerSettings, privacy_bound: float, scheme: str) -> None:
    """AlignmentError for a schedule without a beta to announce."""
    if power.alignment == "schedule" and math.isinf(min(_scheduled(power), privacy_bound)):
        raise AlignmentError(
            f"power.alignment: a schedule of scheme {scheme!r} has no beta to announce, as there is no "
            "privacy bound; give power.coefficient, or take sample or population"
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
    """Alignment to the largest beta within power and `privacy_bound`; other policies than the paper's (power.policy)
    keep to the same bounds.

    Args:
        power: The section.
        privacy_bound: The largest beta that privacy allows.
        policy: Of power.
        limit: What P_i bounds.
        noise_std: sigma_0.
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
        scheduled=_scheduled(power),
    )


def analog_uplink(
    control: PowerControl,
    grid: OfdmaGrid,
    channel: ChannelSettings,
    privacy: PrivacySettings,
    *,
    waveform: Waveform | None,
    tail: float,
) -> AnalogUplink:
    """All devices at once.

    Args:
        control: Of their amplitudes.
        grid: Of resource elements.
        channel: The section.
        privacy: The section.
        waveform: In time, None where entries are sent as they are.
        tail: What of delta pays for quantiles of the channel error in a round.
    """
    return AnalogUplink(
        grid=grid,
        control=control,
        noise_std=control.noise_std,
        waveform=waveform,
        tail=tail,
        noise=channel.noise,
        interference_to_noise_db=channel.interference_to_noise_db,
        csi_error=privacy.csi_error,
        least_gain=channel.min_gain if channel.units == "normalised" else 0.0,
        raw_samples=privacy.observer == "server",
    )


def digital_uplink(
    digital: DigitalSettings, grid: OfdmaGrid, noise_std: float, channel: ChannelSettings, power: PowerSettings
) -> DigitalUplink:
    """Orthogonal OFDMA, with the error model and the allocation of the section.

    Args:
        digital: The section.
        grid: Of resource elements.
        noise_std: Root of the noise energy on one.
        channel: The section.
        power: The section.
    """
    return DigitalUplink(
        grid=grid,
        allocation=digital.allocation_rule,
        error_model=digital.link_errors,
        noise_std=noise_std,
        concentrate=digital.power == "total",
        deadline_s=digital.deadline_s,
        secure_aggregation=digital.secure_aggregation,
        divide_by_heard=power.divide_by == "active",
        interference_to_noise_db=channel.interference_to_noise_db,
    )


def ideal_uplink(
    digital: DigitalSettings, grid: OfdmaGrid, noise_std: float, channel: ChannelSettings, power: PowerSettings
) -> IdealUplink:
    """Error-free and orthogonal, charged at capacity; arguments as in `digital_uplink`."""
    return IdealUplink(
        grid=grid,
        noise_std=noise_std,
        interference_to_noise_db=channel.interference_to_noise_db,
        deadline_s=digital.deadline_s,
        divide_by_heard=power.divide_by == "active",
    )


def _scheduled(power: PowerSettings) -> float:
    return math.inf if power.coefficient is None else power.coefficient
