"""The downlink of a round: model, mask seed, beta and channel feedback, broadcast to the selected devices."""

from __future__ import annotations

from airfl.errors import UserError
from airfl.selection import Array, Ids
from airfl.uplinks.orthogonal import leaked_gains, power_gains
from airfl.uplinks.radio import Radio
from airfl.uplinks.radio.parts import link_noise_std_of
from channels.broadcast import Broadcast, broadcast_cost, downlink_bits
from channels.csi import ChannelInformation
from channels.digital.sequential import single_user_rates
from channels.frame import Frame
from channels.interference import disturbance
from channels.units import db_to_linear, subcarrier_power_w


def over_the_band(
    radio: Radio, round_index: int, devices: Ids, csi: ChannelInformation, frame: Frame, element_power: Array
) -> ChannelInformation:
    """Return the channels of the selected devices on all used subcarriers.

    These are those of the uplink, unless its message is shorter than an OFDM symbol and uses only a part of them.

    Args:
        radio: The radio of all devices.
        round_index: The round.
        devices: The selected devices.
        csi: Their channels on the elements of the uplink.
        frame: These elements.
        element_power: Power of these devices on an element of the uplink.
    """
    if frame.subcarriers == radio.grid.used_subcarriers:
        return csi
    whole_symbol = radio.frame(radio.grid.used_subcarriers * (2 if radio.grid.packing == "iq" else 1))
    return radio.csi_of(round_index, devices, whole_symbol, element_power)


def broadcast(
    radio: Radio, dimension: int, csi: ChannelInformation, coefficients: int, mask_bits: int = 0
) -> Broadcast:
    """Return the cost of the broadcast at the capacity of the weakest selected device, over the uplink's reciprocal
    channel.

    A device has the same timing and frequency offsets and phase noise in reception as in transmission, and the same
    interference-to-noise ratio as the server.

    Args:
        radio: The radio of all devices.
        dimension: d, number of model parameters.
        csi: The channels of the selected devices on all used subcarriers, see `over_the_band`.
        coefficients: Coefficients of a device's channel that the server estimates and feeds back.
        mask_bits: Bits that encode coordinates selected by the server, which no seed determines.
    """
    channel, grid, feedback = radio.sections.channel, radio.sections.grid, radio.imperfections.feedback
    response = csi.state.response
    if radio.physical:
        element_power = float(subcarrier_power_w(grid.downlink_power_dbm, radio.grid.used_subcarriers))
    else:
        element_power = float(db_to_linear(grid.downlink_snr_db)) * radio.noise_std**2
    if not len(response):
        return Broadcast(0, 0, 0, 0.0, 0.0)
    against = disturbance(
        link_noise_std_of(channel, grid), channel.interference_to_noise_db, channel.interference_model
    )
    over_noise = element_power / against.energy
    leaked_power = leaked_gains(csi.state)
    rates = single_user_rates(
        power_gains(response[:, :1]) * over_noise,  # a broadcast has no array gain
        radio.grid.used_subcarriers,
        csi.offsets,
        None if leaked_power is None else leaked_power * over_noise,
        against.effective,
        csi.scattered,
    )
    fed_back = len(response) * coefficients * (feedback.phase_bits + feedback.gain_bits)
    try:
        bits = downlink_bits(dimension, feedback_bits=fed_back + mask_bits)
        return broadcast_cost(bits, float(rates.min()), radio.grid, element_power * radio.energy_unit)
    except OverflowError as error:
        key = "grid.downlink_power_dbm" if radio.physical else "grid.downlink_snr_db"
        raise UserError(f"{key}: the weakest device cannot receive the broadcast: {error}; raise it") from None
