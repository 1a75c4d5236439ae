"""Error-free transmission at capacity, one sender at a time on the whole band.

Used for the ideal link, and for the rates of a broadcast to its receivers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.csi.offsets import Offsets
from channels.digital.elements import leaked, sinr
from channels.digital.shannon import MIN_RATE, bits_per_element, check_count

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SequentialCost:
    """The cost of messages that are sent one after the other.

    Attributes:
        resource_elements: Resource elements used until the message is complete or stopped, [devices].
        heard: Whether the message was received in time, [devices].
    """

    resource_elements: NDArray[np.int64]
    heard: NDArray[np.bool_]


def single_user_rates(
    snr: Array,
    subcarriers: int,
    offsets: Offsets | None = None,
    leaked_power: Array | None = None,
    effective: Callable[[Array], Array] | None = None,
    distortion: float = 0.0,
    conversion: float = 0.0,
) -> Array:
    """Return the rate of a codeword over the whole message in bits per resource element, [devices].

    It is the mean of log2(1 + SINR) over all subcarriers and blocks, which is at most the rate at the mean SINR
    (Jensen). snr: SNR of the power that stays on an element, [devices, blocks, 1 or subcarriers]. A device's own
    leakage due to `offsets` and late paths (`leaked_power`, over the noise, in the shape of `snr`) is interference, and
    so are the distortion of its transmitter (power over that of the useful signal) and the noise of the receiver's
    converter (power over that of its input, which is the whole band). effective: effective SINR of an SINR, under
    interference that is not Gaussian; None for none.
    """
    at = bits_per_element if effective is None else lambda ratio: bits_per_element(effective(ratio))
    if offsets is None or not offsets.present:
        disturbance = 1.0 if leaked_power is None else 1.0 + leaked_power
        band = snr.mean(axis=2, keepdims=True)
        return np.asarray(at(sinr(snr, disturbance, distortion, conversion, band)).mean(axis=(1, 2)))
    width = np.array([subcarriers])
    rates = np.empty(len(snr))
    for device, received in enumerate(snr):
        useful = np.broadcast_to(received, (len(received), subcarriers))
        interference = leaked(useful, width, subcarriers, offsets.take(np.array([device])))
        if leaked_power is not None:
            interference = interference + leaked_power[device]
        band = useful.mean(axis=1, keepdims=True)
        rates[device] = at(sinr(useful, 1.0 + interference, distortion, conversion, band)).mean()
    return rates


def sequential_cost(bits: int, rates: Array, limit: float = np.inf) -> SequentialCost:
    """Return the cost of `bits` bits from every device at its rate, on consecutive resource elements.

    limit: resource elements until the deadline, inf for none. The shortest transmissions go first, which maximises the
    number of received messages (FedCS: Nishio and Yonetani 2019, algorithm 3). A device that is not done by the limit
    stops there. A device with a rate of 0 does not send.
    Raises OverflowError if the number of resource elements exceeds a 64-bit integer.
    """
    sends = (rates > MIN_RATE) & (bits > 0)
    needed = np.where(sends, np.ceil(bits / np.where(sends, rates, 1.0)), 0.0)
    order = np.argsort(needed, kind="stable")
    before = np.empty_like(needed)
    before[order] = np.cumsum(needed[order]) - needed[order]
    used = np.clip(np.floor(limit) - before, 0.0, needed)
    check_count(used.sum())
    return SequentialCost(used.astype(np.int64), (used == needed) & (sends | (bits == 0)))
