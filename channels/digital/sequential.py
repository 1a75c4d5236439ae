"""One sender at a time on the whole band, free of errors at the capacity of its channel: the ideal link, and a
broadcast to each of its listeners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.csi.offsets import Offsets
from channels.digital.elements import leaked
from channels.digital.shannon import LEAST_RATE, bits_per_element, check_count

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SequentialCost:
    """What the messages take one after the other.

    Attributes:
        resource_elements: Used until the message is through or stops, [devices].
        heard: Whether the message arrived in time, [devices].
    """

    resource_elements: NDArray[np.int64]
    heard: NDArray[np.bool_]


def single_user_rates(
    snr: Array, subcarriers: int, offsets: Offsets | None = None, spilled: Array | None = None
) -> Array:
    """Bits a resource element that a codeword over the whole message gets, [devices]: the mean of log2(1 + SINR) over
    all subcarriers and blocks, not the logarithm at the mean SINR, which is never less (Jensen).

    snr: of what stays on an element, over the noise, [devices, blocks, 1 or subcarriers]; what the device itself leaks
    by `offsets` and late paths (`spilled`, over the noise, shape as `snr`) is against it.
    """
    if offsets is None or not offsets.present:
        return np.asarray(bits_per_element(snr if spilled is None else snr / (1.0 + spilled)).mean(axis=(1, 2)))
    width = np.array([subcarriers])
    found = np.empty(len(snr))
    for device, received in enumerate(snr):
        useful = np.broadcast_to(received, (len(received), subcarriers))
        against = leaked(useful, width, subcarriers, offsets.take(np.array([device])))
        if spilled is not None:
            against = against + spilled[device]
        found[device] = bits_per_element(useful / (1.0 + against)).mean()
    return found


def sequential_cost(bits: int, rates: Array, limit: float = np.inf) -> SequentialCost:
    """`bits` bits of every device at its rate, on resource elements that are filled one after the other.

    limit: resource elements until the deadline, inf for none. Those that take least go first, by which most are heard
    (FedCS: Nishio and Yonetani 2019, algorithm 3). Who is not through by the limit stops there; a device whose channel
    is dead does not send.
    Raises OverflowError where that takes more resource elements than a 64-bit integer counts.
    """
    sends = (rates > LEAST_RATE) & (bits > 0)
    wanted = np.where(sends, np.ceil(bits / np.where(sends, rates, 1.0)), 0.0)
    order = np.argsort(wanted, kind="stable")
    before = np.empty_like(wanted)
    before[order] = np.cumsum(wanted[order]) - wanted[order]
    used = np.clip(np.floor(limit) - before, 0.0, wanted)
    check_count(used.sum())
    return SequentialCost(used.astype(np.int64), (used == wanted) & (sends | (bits == 0)))
