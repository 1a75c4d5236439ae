"""Shannon rates with an efficiency gap; the only error is outage, where the channel is worse than it is believed."""

from __future__ import annotations

import numpy as np

from channels.digital.elements import OwnElements
from channels.digital.kinds import ErrorModel
from channels.digital.parameters import snr_gap
from channels.digital.shannon import LEAST_RATE, bits_per_element
from channels.digital.task import Demand, DigitalTask
from channels.units import db_to_linear

# Two ways to compute the same gain are no outage, in single precision as selective channels are.
ROUNDING = 1e-6


class Capacity(ErrorModel):
    """The mean over a device's subcarriers and the round's blocks of log2(1 + SNR/gap) bits a resource element, from
    the known channel; lost, after all of it was sent, where the true channel's mean of log2(1 + SNR), without the gap,
    is less."""

    name = "capacity"
    source = "Shannon 1948, with an SNR gap; outage where the channel is not as believed"
    certain = True

    gap_db: float = snr_gap()

    def send(self, task: DigitalTask, own: OwnElements) -> Demand:
        """What the messages take, and whether they arrive."""
        rate = own.mean(bits_per_element(own.known / db_to_linear(self.gap_db)))
        outage = own.mean(bits_per_element(own.true)) < rate * (1 - ROUNDING)
        bits = task.bits.astype(float)
        sends = (bits > 0) & (rate > LEAST_RATE)
        elements = np.where(sends, np.ceil(bits / np.where(sends, rate, 1.0)), 0.0)
        lost = (bits > 0) & (outage | ~sends)
        return Demand(
            rate=rate,
            resource_elements=elements,
            bits_on_air=np.where(sends, bits, 0.0),
            block_error_rate=lost.astype(float),
            decoded=~lost,
        )
