"""What a run's settings let an observer tell of who was selected, beside the sum itself.

An amplified figure needs a round that looks the same whoever was selected, but for the data. Where it may not, and what
it tells is not worked out, the observer is granted who was selected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.csi import Surroundings
from channels.fading import FlatFading, doppler_hz

if TYPE_CHECKING:
    from airfl.config.radio_sections import RadioSections


def beta_tells(radio: RadioSections) -> bool:
    """Whether beta follows from who was selected, and not from a schedule or from everybody."""
    power, channel, csi = radio.power, radio.channel, radio.csi.imperfections
    steady = not (channel.speed_m_s or csi.timing.timing_offset_s or csi.frequency.frequency_offset_hz)
    flat = isinstance(channel.fading_model, FlatFading) and steady
    lowered = (power.strict and not flat) or (power.peak_db is not None and power.peak == "back-off")
    of_the_sample = power.alignment in ("auto", "sample") and power.power_policy.target is None
    return power.divide_by == "active" or lowered or of_the_sample


def is_granted(radio: RadioSections, weights: str, link: str, own_noise: bool) -> bool:
    """Whether the round may look otherwise for other devices in a way that is not worked out, so that the observer is
    granted who was selected. weights: of the mean (server.weights); own_noise: whether devices bring noise of their
    own."""
    if link == "analog" and imperfect_csi(radio):
        return True  # how strongly anybody arrives, and so what the noise is worth, differs between devices
    # The noise on the sum then tells how many brought theirs, and whose counted more.
    return own_noise and not alike(radio, weights, link)


def alike(radio: RadioSections, weights: str, link: str) -> bool:
    """Whether all selected devices are heard in every round, each as strongly as any other."""
    if weights != "equal":
        return False
    if link == "analog":
        power = radio.power
        policy = power.power_policy
        silent = policy.least_power > 0 or power.participation is not None or policy.target is not None
        return policy.aligned and power.alignment != "schedule" and not silent and not imperfect_csi(radio)
    return not may_be_lost(radio, link)


def may_be_lost(radio: RadioSections, link: str) -> bool:
    """Whether a link that carries bits may lose messages: at capacity, over known channels and without a deadline it
    does not. The ideal link is at capacity and knows its channels."""
    digital = radio.digital
    in_error = not digital.link_errors.certain or imperfect_csi(radio)
    return digital.deadline_s < float("inf") or (link == "digital" and in_error)


def imperfect_csi(radio: RadioSections) -> bool:
    """Whether channels are known otherwise than they are."""
    channel = radio.channel
    return radio.csi.imperfections.present(Surroundings(doppler_hz(channel.speed_m_s, channel.carrier_hz)))
