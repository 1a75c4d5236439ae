"""The ideal link: devices send one after another at the capacity of perfectly known channels."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.uplinks.cells import crossing_bits
from airfl.uplinks.orthogonal import accumulate, amplified, device_noise_gain, leaked_gains, mean_message, power_gains
from airfl.uplinks.stages.stage import Batch
from airfl.uplinks.uplink import DeviceUse, Link, LinkReport, Reception, UplinkContext
from channels.digital.sequential import sequential_cost, single_user_rates
from channels.grid import OfdmaGrid
from channels.hardware.amplifiers import Amplifiers
from channels.hardware.converter import Converter
from channels.interference import Gaussian, Interference, disturbance
from channels.transfer import on_device
from channels.units import linear_to_db

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class IdealUplink:
    """Error-free messages at the capacity of each device's channel.

    The rate is the mean of log2(1 + |h_i|^2 P_i/(d (N_0 + I_i))) over the resource elements of the channel, each with
    energy P_i/d. I_i is the interference of other cells and the device's own leakage, since no other device sends at
    the same time. Under interference that is not Gaussian the SINR is the effective one of `channels.interference`. A
    device that has not finished by the deadline is in outage and its message is not received, as on the digital link.

    Attributes:
        grid: Resource elements and their duration.
        noise_std: Square root of N_0, the noise energy on a complex resource element.
        interference_to_noise_db: Interference of other cells over the noise in dB, None for none.
        interference: The law of the interference.
        deadline_s: Deadline of a round in s, inf for none.
        divide_by_received: Whether the sum is divided by the number of received messages instead of all selected
            devices.
        amplifiers: The devices' power amplifiers at their limit, None for linear ones whose supply is not charged.
        converter: The receiver's analog-to-digital converter, None for one that is exact.
    """

    grid: OfdmaGrid
    noise_std: float
    interference_to_noise_db: float | None = None
    interference: Interference = field(default_factory=Gaussian)
    deadline_s: float = math.inf
    divide_by_received: bool = False
    amplifiers: Amplifiers | None = None
    converter: Converter | None = None

    def open(self, context: UplinkContext) -> Link:
        """Open the link and compute its cost. Raises UserError if the link is so weak that its cost overflows."""
        return _IdealLink(self, context)


class _IdealLink:
    elementwise = True

    def __init__(self, uplink: IdealUplink, context: UplinkContext) -> None:
        self._uplink, self._context = uplink, context
        self._sum: Tensor | None = None
        grid, csi = uplink.grid, context.csi
        self._power = power_gains(csi.state.response)
        against = disturbance(uplink.noise_std, uplink.interference_to_noise_db, uplink.interference)
        disturbance_energy = against.energy + crossing_bits(context, at_once=1)
        per_gain = (context.element_power / disturbance_energy)[:, None, None]
        leaked_power = leaked_gains(csi.state)
        self._amplified = amplified(uplink.amplifiers)
        self._rates = single_user_rates(
            self._power * per_gain * self._amplified.gain,
            grid.used_subcarriers,
            csi.offsets,
            None if leaked_power is None else leaked_power * per_gain,
            against.effective,
            self._amplified.distortion + csi.scattered,
            uplink.converter.distortion if uplink.converter else 0.0,
        )
        limit = math.floor(uplink.deadline_s / grid.mean_symbol_s) if math.isfinite(uplink.deadline_s) else math.inf
        try:
            self._cost = sequential_cost(context.message.payload_bits, self._rates, limit * grid.used_subcarriers)
        except OverflowError as error:
            raise UserError(
                f"digital.deadline_s: round {context.round_index} of the ideal link: {error}; set a deadline, or raise "
                "the transmit power (power.max_snr_db, power.tx_power_dbm)"
            ) from None

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whether each device's message is received in time."""
        return self._cost.heard

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
        context, elements, pilots = self._context, self._cost.resource_elements, self._context.pilots
        weights = context.weights[self.heard]
        inputs = elements * context.element_power * context.energy_unit
        return LinkReport(
            noise_std=0.0,
            alignment_coefficient=float("nan"),
            power_bound_binding=False,
            privacy_bound_binding=False,
            protection=0.0,
            noisy_devices=float((weights**2).sum()) * context.device_noise_factor**2,
            device_noise_gain=device_noise_gain(weights, self._divisor) * context.device_noise_factor,
            use=self._uplink.grid.occupy(int(elements.sum()) + pilots.resource_elements),
            devices=DeviceUse(
                transmit_scale=np.sqrt(context.element_power),
                energy=inputs * self._amplified.radiated + pilots.energy,
                supply_energy=self._amplified.supply(inputs, pilots.energy),
                bits=np.full(len(elements), context.message.payload_bits, dtype=np.int64),
                active=self.heard.astype(np.int8),
                snr_db=linear_to_db(self._power.mean(axis=(1, 2)) * context.element_power / self._uplink.noise_std**2),
                rate=self._rates,
            ),
            pilot_elements=pilots.resource_elements,
            energy_of_others=pilots.energy_of_others,
        )

    @property
    def _divisor(self) -> float:
        return float(self.heard.sum()) if self._uplink.divide_by_received else self._context.divisor
