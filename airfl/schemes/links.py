"""The uplinks of the settings."""

from __future__ import annotations

import math

from airfl.config.settings import Settings
from airfl.errors import AlignmentError
from airfl.radio.parts import grid_of, link_noise_std_of, noise_std_of, power_policy, waveform_of
from airfl.uplinks import AnalogUplink, DigitalUplink, IdealUplink
from airfl.uplinks.control import PowerControl


def analog_uplink(settings: Settings, privacy_bound: float = math.inf) -> AnalogUplink:
    """All devices at once, aligned to the largest beta within power and `privacy_bound`; other policies than the
    paper's (power.policy) keep to the same bounds."""
    power, run = settings.power, settings.run
    noise_std = noise_std_of(settings)
    scheduled = math.inf if power.coefficient is None else power.coefficient
    if power.alignment == "schedule" and math.isinf(min(scheduled, privacy_bound)):
        raise AlignmentError(
            f"power.alignment: a schedule of scheme {settings.scheme.name!r} has no beta to announce, as there is no "
            "privacy bound; give power.coefficient, or take sample or population"
        )
    control = PowerControl(
        policy=power_policy(settings),
        limit=settings.power_limit,
        noise_std=noise_std,
        privacy_bound=privacy_bound,
        divide_by=power.divide_by,
        combining=settings.antennas.combining,
        strict=power.strict,
        peak_db=power.peak_db,
        peak=power.peak,
        alignment="sample" if power.alignment == "auto" else power.alignment,
        scheduled=scheduled,
    )
    return AnalogUplink(
        grid=grid_of(settings),
        control=control,
        noise_std=noise_std,
        noise=settings.channel.noise,
        interference_to_noise_db=settings.channel.interference_to_noise_db,
        waveform=waveform_of(settings),
        csi_error=settings.privacy.csi_error,
        tail=settings.csi_tail / run.rounds,
        least_gain=settings.channel.min_gain if settings.channel.units == "normalised" else 0.0,
        raw_samples=settings.privacy.observer == "server",
    )


def digital_uplink(settings: Settings) -> DigitalUplink:
    """Orthogonal OFDMA with the rate and error model of the settings."""
    digital = settings.digital
    return DigitalUplink(
        grid=grid_of(settings),
        allocation=digital.allocation_rule,
        error_model=digital.link_errors,
        noise_std=link_noise_std_of(settings),
        concentrate=digital.power == "total",
        deadline_s=digital.deadline_s,
        secure_aggregation=digital.secure_aggregation,
        divide_by_heard=settings.power.divide_by == "active",
        interference_to_noise_db=settings.channel.interference_to_noise_db,
    )


def ideal_uplink(settings: Settings) -> IdealUplink:
    """Error-free and orthogonal, charged at capacity."""
    return IdealUplink(
        grid=grid_of(settings),
        noise_std=link_noise_std_of(settings),
        interference_to_noise_db=settings.channel.interference_to_noise_db,
        deadline_s=settings.digital.deadline_s,
        divide_by_heard=settings.power.divide_by == "active",
    )
