"""What a run's settings let an observer tell of who was selected, beside the sum itself.

An amplified figure needs a round that looks the same whoever was selected, but for the data. Where it may not, and what
it tells is not worked out, the observer is granted who was selected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.csi import Surroundings
from channels.fading import FlatFading, doppler_hz

if TYPE_CHECKING:
    from airfl.config.settings import Settings


def beta_tells(settings: Settings) -> bool:
    """Whether beta follows from who was selected, and not from a schedule or from everybody."""
    power, channel, csi = settings.power, settings.channel, settings.csi.imperfections
    steady = not (channel.speed_m_s or csi.timing.timing_offset_s or csi.frequency.frequency_offset_hz)
    flat = isinstance(channel.fading_model, FlatFading) and steady
    lowered = (power.strict and not flat) or (power.peak_db is not None and power.peak == "back-off")
    of_the_sample = power.alignment in ("auto", "sample") and power.power_policy.target is None
    return power.divide_by == "active" or lowered or of_the_sample


def is_granted(settings: Settings, link: str, own_noise: bool) -> bool:
    """Whether the round may look otherwise for other devices in a way that is not worked out, so that the observer is
    granted who was selected. own_noise: whether devices bring noise of their own."""
    if link == "analog" and imperfect_csi(settings):
        return True  # how strongly anybody arrives, and so what the noise is worth, differs between devices
    # The noise on the sum then tells how many brought theirs, and whose counted more.
    return own_noise and not alike(settings, link)


def alike(settings: Settings, link: str) -> bool:
    """Whether all selected devices are heard in every round, each as strongly as any other."""
    if settings.server.weights != "equal":
        return False
    if link == "analog":
        power = settings.power
        policy = power.power_policy
        silent = policy.least_power > 0 or power.participation is not None or policy.target is not None
        return policy.aligned and power.alignment != "schedule" and not silent and not imperfect_csi(settings)
    return not may_be_lost(settings, link)


def may_be_lost(settings: Settings, link: str) -> bool:
    """Whether a link that carries bits may lose messages: at capacity, over known channels and without a deadline it
    does not. The ideal link is at capacity and knows its channels."""
    digital = settings.digital
    in_error = not digital.link_errors.certain or imperfect_csi(settings)
    return digital.deadline_s < float("inf") or (link == "digital" and in_error)


def imperfect_csi(settings: Settings) -> bool:
    """Whether channels are known otherwise than they are."""
    channel = settings.channel
    return settings.csi.imperfections.present(Surroundings(doppler_hz(channel.speed_m_s, channel.carrier_hz)))
