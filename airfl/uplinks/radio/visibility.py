"""What a run's settings reveal to an observer about the selected devices, besides the sum itself.

Amplification by sampling needs a round that looks the same for every selection, except for the data. Where it may not,
and what it reveals is not analysed, the observer is assumed to know the selection ("granted").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.csi import Surroundings
from channels.fading import FlatFading, doppler_hz

if TYPE_CHECKING:
    from airfl.config.radio_sections import RadioSections


def beta_depends_on_sample(radio: RadioSections) -> bool:
    """Return whether beta depends on the selected devices, rather than on a schedule or on all devices."""
    power, channel, csi = radio.power, radio.channel, radio.csi.imperfections
    offset = csi.timing.timing_offset_s or csi.frequency.frequency_offset_hz or csi.synchronisation.file
    steady = not (channel.speed_m_s or offset)
    flat = isinstance(channel.fading_model, FlatFading) and steady
    lowered = (power.strict and not flat) or (power.peak_db is not None and power.peak == "back-off")
    of_the_sample = power.alignment in ("auto", "sample") and power.power_policy.target is None
    return power.divide_by == "active" or lowered or of_the_sample


def is_granted(radio: RadioSections, weights: str, link: str, device_noise: bool, silent: bool = False) -> bool:
    """Return whether the round may depend on the selection in a way that is not analysed, so that the observer is
    assumed to know it. weights: of the mean (server.weights); device_noise: whether devices add noise; silent: whether
    some devices have no channel in some rounds."""
    if link in ("analog", "noncoherent") and radio.surface.surface.follows_channels:
        return True  # its phases, and with them every device's channel, depend on who was selected
    policy = radio.power.power_policy
    unequal = policy.coherent and not policy.within_beta  # where no device knows its channel, beta alone decides
    if link == "analog" and (imperfect_csi(radio) or combined_robustly(radio) or unequal):
        return True  # received amplitudes, and with them the protection by noise, differ between devices
    # The noise on the sum then reveals how many devices contributed, and with which weights.
    return device_noise and not received_equally(radio, weights, link, silent)


def received_equally(radio: RadioSections, weights: str, link: str, silent: bool = False) -> bool:
    """Return whether all selected devices are received in every round with equal amplitudes. silent: whether some
    devices have no channel in some rounds."""
    if weights != "equal" or silent:
        return False
    if link == "analog":
        power = radio.power
        policy = power.power_policy
        left_out = policy.least_power > 0 or power.participation is not None or policy.target is not None
        alike = policy.aligned and power.alignment != "schedule" and not left_out
        return alike and not imperfect_csi(radio) and not combined_robustly(radio)
    return not may_be_lost(radio, link)


def may_be_lost(radio: RadioSections, link: str) -> bool:
    """Return whether a link that carries bits may lose messages. At capacity, with perfect CSI and without a deadline
    it does not; this includes the ideal link."""
    digital = radio.digital
    in_error = not digital.link_errors.certain or imperfect_csi(radio)
    return digital.deadline_s < float("inf") or (link == "digital" and in_error)


def combined_robustly(radio: RadioSections) -> bool:
    """Return whether an analog link combines antennas by what is not a sum, so that what is released depends on the
    samples of all of them."""
    return radio.antennas.count > 1 and radio.antennas.combiner.robust


def imperfect_csi(radio: RadioSections) -> bool:
    """Return whether the CSI is imperfect."""
    channel = radio.channel
    return radio.csi.imperfections.present(Surroundings(doppler_hz(channel.speed_m_s, channel.carrier_hz)))
