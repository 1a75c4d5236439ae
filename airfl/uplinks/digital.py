"""The digital uplink: separate subcarriers per device, coded bits, block errors, retransmissions and a deadline."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose
from airfl.uplinks.cells import crossing_bits
from airfl.uplinks.orthogonal import (
    accumulate,
    amplified,
    coupling,
    device_noise_gain,
    leaked_gains,
    mean_message,
    power_gains,
)
from airfl.uplinks.stages.stage import Batch
from airfl.uplinks.uplink import Array, DeviceUse, Link, LinkReport, Reception, UplinkContext
from channels.digital import Allocation, DigitalOutcome, DigitalTask, ErrorModel, send
from channels.grid import GridUse, OfdmaGrid
from channels.hardware.amplifiers import Amplifiers
from channels.hardware.converter import Converter
from channels.interference import Gaussian, Interference, disturbance
from channels.transfer import on_device
from channels.units import linear_to_db

if TYPE_CHECKING:
    from torch import Tensor

SecureAggregation = Literal["assumed", "counted", "off"]

KEY_BITS = SHARE_BITS = 256


@dataclass(frozen=True)
class DigitalUplink:
    """Orthogonal OFDMA.

    Attributes:
        grid: The grid of resource elements.
        allocation: Subcarrier allocation.
        error_model: Rates and block errors.
        noise_std: Square root of the noise energy on a resource element.
        concentrate: Whether a device concentrates its power on its own subcarriers.
        deadline_s: Deadline of a message in s, inf for none.
        secure_aggregation: Whether the server sees only the sum, and whether the protocol's traffic is charged.
        divide_by_received: Whether the sum is divided by the number of received messages instead of all selected
            devices.
        interference_to_noise_db: Interference of other cells over the noise in dB, at a known level; None for none.
        interference: The law of the interference, which is known as well.
        amplifiers: The devices' power amplifiers at their limit, None for linear ones whose supply is not charged.
        converter: The receiver's analog-to-digital converter, None for one that is exact.
    """

    grid: OfdmaGrid
    allocation: Allocation
    error_model: ErrorModel
    noise_std: float
    concentrate: bool = True
    deadline_s: float = math.inf
    secure_aggregation: SecureAggregation = "assumed"
    divide_by_received: bool = False
    interference_to_noise_db: float | None = None
    interference: Interference = field(default_factory=Gaussian)
    amplifiers: Amplifiers | None = None
    converter: Converter | None = None

    def open(self, context: UplinkContext) -> Link:
        """Open the link. Rates, errors and retransmissions are determined here, since they depend only on the channel
        and the message length. Raises UserError if the link is so weak that its cost overflows."""
        return _DigitalLink(self, context)


class _DigitalLink:
    elementwise = True

    def __init__(self, uplink: DigitalUplink, context: UplinkContext) -> None:
        self._uplink, self._context = uplink, context
        self._sum: Tensor | None = None
        csi = context.csi
        self._power = power_gains(csi.state.response)
        devices = len(self._power)
        bits = message_bits(context, devices, uplink.secure_aggregation)
        subcarriers = uplink.grid.used_subcarriers
        self._bits = np.full(devices, bits, dtype=np.int64)
        # Rates follow a measured SINR, which includes leakage. The estimate of a flat channel is flat, although an
        # offset may have put a phase ramp on the true channel.
        useful = (1.0 - csi.leakage) / (1.0 - csi.late)  # the estimate already excludes late paths
        estimate = power_gains(csi.estimate.response) * useful[:, None, None]
        # A device's power is that of the elements of an update, if these are fewer than the subcarriers.
        sharing = min(subcarriers, uplink.grid.elements_for(context.dimension))
        crossing = crossing_bits(context, subcarriers if uplink.concentrate else 1) * sharing / subcarriers
        against = disturbance(uplink.noise_std, uplink.interference_to_noise_db, uplink.interference)
        self._amplified = amplified(uplink.amplifiers)
        known, true = np.broadcast_arrays(*(gains * self._amplified.gain for gains in (estimate, self._power)))
        task = DigitalTask(
            bits=self._bits,
            known=known,
            true=true,
            symbol_energy=context.element_power * sharing,
            noise_energy=against.energy + crossing,
            subcarriers=subcarriers,
            concentrate=uplink.concentrate,
            deadline_symbols=uplink.deadline_s / uplink.grid.mean_symbol_s,
            allocation=uplink.allocation,
            error_model=uplink.error_model,
            uniforms=self._uniforms,
            offsets=csi.offsets,
            leaked_power=leaked_gains(csi.state),
            coupling=coupling(csi.state.response) if csi.offsets.present else None,
            effective=against.effective,
            distortion=self._amplified.distortion + csi.scattered,
            conversion=uplink.converter.distortion if uplink.converter else 0.0,
        )
        try:
            self._outcome: DigitalOutcome = send(task)
        except OverflowError as error:
            raise UserError(
                f"digital.deadline_s: round {context.round_index}: {error}; set a deadline, or raise the transmit "
                "power (power.max_snr_db, power.tx_power_dbm)"
            ) from None
        except ValueError as error:  # an invalid result of a user-defined part
            raise UserError(f"digital: round {context.round_index}: {error}") from None

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whether each device's message is received in time."""
        return self._outcome.heard

    def send(self, batch: Batch, devices: slice) -> None:
        """Add the received messages of a chunk to the sum."""
        weights = batch.scale * on_device(self.heard[devices], batch.scale.device, batch.scale.dtype)
        self._sum = accumulate(self._sum, batch, weights, self._context.entries)

    def close(self) -> Reception:
        """Return the exact mean of the received messages."""
        mean = mean_message(self._sum, self._context, self._divisor)
        return Reception(mean=mean, receive_snr_db=float("inf"), report=self._report)

    def link_budget(self) -> LinkReport:
        """Return the report, which does not depend on the content of the messages."""
        return self._report

    def with_device_noise(self, factor: float) -> Link:
        """Return the link; the noise changes the report alone, as rates and errors follow from the channel."""
        link = copy(self)
        link._context = self._context.with_device_noise(factor)
        return link

    @property
    def _report(self) -> LinkReport:
        context, outcome, grid = self._context, self._outcome, self._uplink.grid
        pilots = context.pilots
        weights = context.weights[outcome.heard]
        return LinkReport(
            noise_std=0.0,
            alignment_coefficient=float("nan"),
            power_bound_binding=False,
            privacy_bound_binding=False,
            protection=0.0,
            noisy_devices=(1.0 if self._uplink.secure_aggregation == "off" else float((weights**2).sum()))
            * context.device_noise_factor**2,
            device_noise_gain=device_noise_gain(weights, self._divisor) * context.device_noise_factor,
            use=self._use(),
            devices=DeviceUse(
                transmit_scale=np.sqrt(context.element_power),
                energy=outcome.energy * self._amplified.radiated * context.energy_unit + pilots.energy,
                supply_energy=self._amplified.supply(outcome.energy * context.energy_unit, pilots.energy),
                bits=self._bits,
                active=outcome.heard.astype(np.int8),
                snr_db=linear_to_db(self._power.mean(axis=(1, 2)) * context.element_power / self._uplink.noise_std**2),
                rate=outcome.rate,
                air_time_s=np.asarray(outcome.symbols * grid.mean_symbol_s, dtype=np.float64),
                block_error_rate=outcome.block_error_rate,
                bits_on_air=outcome.bits_on_air,
            ),
            pilot_elements=pilots.resource_elements,
            energy_of_others=pilots.energy_of_others,
        )

    def _use(self) -> GridUse:
        """Return the use of the grid. Elements add up, and the round ends when the last device has finished."""
        grid, pilots = self._uplink.grid, self._context.pilots.resource_elements
        elements = int(self._outcome.resource_elements.sum())
        first = grid.occupy(pilots)
        symbols = int(self._outcome.air_time_symbols) + first.ofdm_symbols
        return GridUse(
            resource_elements=elements + pilots,
            subcarriers=min(int(self._outcome.subcarriers.sum()), grid.used_subcarriers),
            ofdm_symbols=symbols,
            air_time_s=grid.air_time_s(symbols),
        )

    @property
    def _divisor(self) -> float:
        return float(self.heard.sum()) if self._uplink.divide_by_received else self._context.divisor

    def _uniforms(self, count: int) -> Array:
        context = self._context
        return device_uniforms.draw(context.streams, Purpose.BLOCK_ERRORS, context.round_index, context.ids, count)


def message_bits(context: UplinkContext, devices: int, secure_aggregation: SecureAggregation) -> int:
    """Return the bits that a device sends: its values and the indices of their coordinates. If secure aggregation is
    charged, they are all entries modulo r times their range, and the keys and shares of Bonawitz et al. 2017.

    In their protocol, a client sends 2 public keys, 2(r - 1) encrypted shares and r shares for unmasking (section 7.1).
    """
    message = context.message
    if secure_aggregation != "counted":
        return message.payload_bits
    entry_bits = math.ceil(message.value_bits) + math.ceil(math.log2(max(devices, 1)))
    keys = 2 * KEY_BITS + (2 * (devices - 1) + devices) * SHARE_BITS
    return message.entries * entry_bits + keys
