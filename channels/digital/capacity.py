"""Shannon rates with an efficiency gap; the only error is outage if the channel is worse than estimated."""

from __future__ import annotations

import numpy as np

from channels.digital.elements import DeviceResources
from channels.digital.kinds import ErrorModel
from channels.digital.parameters import snr_gap
from channels.digital.shannon import MIN_RATE, bits_per_element
from channels.digital.task import Demand, DigitalTask
from channels.units import db_to_linear

# Tolerance for rounding, because selective channels are in single precision.
ROUNDING = 1e-6


class Capacity(ErrorModel):
    """Capacity with an SNR gap.

    The rate is the mean of log2(1 + SNR/gap) bits per resource element over a device's subcarriers and the round's
    blocks, computed from the estimated channel. The message is sent completely, and lost if the mean of log2(1 + SNR)
    of the true channel, without the gap, is lower.
    """

    name = "capacity"
    source = "Shannon 1948, with an SNR gap; outage where the channel is not as believed"
    certain = True

    gap_db: float = snr_gap()

    def send(self, task: DigitalTask, resources: DeviceResources) -> Demand:
        """Return the resources that the messages need, and whether they are decoded."""
        rate = resources.mean(bits_per_element(resources.known / db_to_linear(self.gap_db)))
        outage = resources.mean(bits_per_element(resources.true)) < rate * (1 - ROUNDING)
        bits = task.bits.astype(float)
        sends = (bits > 0) & (rate > MIN_RATE)
        elements = np.where(sends, np.ceil(bits / np.where(sends, rate, 1.0)), 0.0)
        lost = (bits > 0) & (outage | ~sends)
        return Demand(
            rate=rate,
            resource_elements=elements,
            bits_on_air=np.where(sends, bits, 0.0),
            block_error_rate=lost.astype(float),
            decoded=~lost,
        )
