"""The ideal link: every message arrives as it was sent; its cost is counted at capacity, on orthogonal resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.stages.stage import Batch
from airfl.uplinks.orthogonal import add_up, mean_of, own_noise_gain
from airfl.uplinks.uplink import DeviceUse, Link, LinkReport, Reception, Terms
from channels.digital import capacity_cost
from channels.grid import OfdmaGrid
from channels.noise import interference_std
from channels.units import linear_to_db

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class IdealUplink:
    """The message's bits at log2(1 + |h_i|^2 P_i/(d (sigma_0^2 + I_i))) bits a resource element of energy P_i/d.

    I_i: of other cells, and what the device leaks itself: nobody else sends beside it.
    """

    grid: OfdmaGrid
    noise_std: float
    interference_to_noise_db: float | None = None

    def open(self, terms: Terms) -> Link:
        """What sending takes is known here; UserError where the link is too weak to be paid for at all."""
        return _IdealLink(self, terms)


class _IdealLink:
    by_entry = True

    def __init__(self, uplink: IdealUplink, terms: Terms) -> None:
        self._uplink, self._terms = uplink, terms
        self._sum: Tensor | None = None
        # Capacity at the mean power gain: over antennas added up, over elements the mean.
        power = np.abs(terms.knowledge.state.response).astype(np.float64) ** 2
        self._gains = np.sqrt(power.sum(axis=1).mean(axis=(1, 2)))
        self._element_power = terms.element_power
        bits = terms.message.payload_bits
        other_cells = interference_std(uplink.noise_std, uplink.interference_to_noise_db) ** 2
        leakage = terms.knowledge.leakage
        interference = other_cells + self._gains**2 * self._element_power * leakage / (1.0 - leakage)
        try:
            self._cost = capacity_cost(bits, self._gains, self._element_power, uplink.noise_std, interference)
        except OverflowError as error:
            raise UserError(
                f"power.max_snr_db: round {terms.round_index} of the ideal link: {error}; raise it"
            ) from None

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Everybody."""
        return np.ones(len(self._gains), dtype=np.bool_)

    def send(self, batch: Batch, devices: slice) -> None:
        """Add a chunk up."""
        self._sum = add_up(self._sum, batch, batch.scale, self._terms.entries)

    def close(self) -> Reception:
        """The exact mean."""
        mean = mean_of(self._sum, self._terms, self._terms.divisor)
        return Reception(mean=mean, receive_snr_db=float("inf"), report=self.at_bound())

    def at_bound(self) -> LinkReport:
        """What sending one device at a time takes, whatever the messages are."""
        cost, pilots = self._cost, self._terms.pilots
        return LinkReport(
            noise_std=0.0,
            alignment_coefficient=float("nan"),
            power_bound_binding=False,
            privacy_bound_binding=False,
            protection=0.0,
            noisy_devices=float((self._terms.weights**2).sum()) * self._terms.own_noise**2,
            own_noise_gain=own_noise_gain(self._terms.weights, self._terms.divisor) * self._terms.own_noise,
            use=self._uplink.grid.occupy(int(cost.resource_elements.sum()) + pilots.resource_elements),
            devices=DeviceUse(
                transmit_scale=np.sqrt(self._element_power),
                energy=cost.energy * self._terms.energy_unit + pilots.energy,
                bits=cost.bits,
                active=np.ones(len(self._gains), dtype=np.int8),
                snr_db=linear_to_db(self._gains**2 * self._element_power / self._uplink.noise_std**2),
            ),
            pilot_elements=pilots.resource_elements,
            energy_of_others=pilots.energy_of_others,
        )
