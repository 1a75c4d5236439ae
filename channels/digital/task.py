"""What a digital uplink is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from channels.csi.offsets import Offsets

if TYPE_CHECKING:
    from channels.digital.kinds import Allocation, ErrorModel

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class DigitalTask:
    """One message of every device, over one round's channel.

    bits: payload, [devices]; known, true: |hhat|^2 and |h|^2, antennas added up and without what leaks, [devices,
    blocks in time, elements], elements 1 for a flat channel, else the K subcarriers; symbol_energy: what a device
    transmits in an OFDM symbol, [devices]; noise_energy: on a resource element, with interference; subcarriers: K;
    concentrate: a device's energy is spread over its own subcarriers, else every subcarrier has symbol_energy/K whoever
    uses it; deadline_symbols: OFDM symbols from the start of the round, inf for none; allocation: who gets how
    many subcarriers; error_model: rates, and what arrives; uniforms: count -> numbers in [0,
    1), [devices, count], asked once at most; offsets: of the devices, None for none; coupling: share of device j's
    power, all antennas together, that the maximum-ratio weights of device i let through, [i, j], 1 of its own; None of
    one antenna, which lets all through; spilled: power that a device's late paths put beside an element for one unit on
    each, the mean over antennas, [devices, blocks, K], None where no path is late.
    """

    bits: Counts
    known: Array
    true: Array
    symbol_energy: Array
    noise_energy: float
    subcarriers: int
    concentrate: bool
    deadline_symbols: float
    allocation: Allocation
    error_model: ErrorModel
    uniforms: Callable[[int], Array]
    offsets: Offsets | None = None
    coupling: Array | None = None
    spilled: Array | None = None


@dataclass(frozen=True)
class DigitalOutcome:
    """What became of the messages; all [devices].

    subcarriers: K_i; rate: payload bits a resource element of the first transmission; resource_elements: used, all
    transmissions together; symbols: air time in OFDM symbols, the last one counted whole; start_symbol: of its first;
    energy: of the resource elements used; bits_on_air: payload bits times transmissions made; block_error_rate: of a
    first transmission (1 where the channel is known to be dead, 0 where there is nothing to send); heard: the whole
    message arrived in time.
    """

    subcarriers: Counts
    rate: Array
    resource_elements: Counts
    symbols: Counts
    start_symbol: Counts
    energy: Array
    bits_on_air: Counts
    block_error_rate: Array
    heard: NDArray[np.bool_]

    @property
    def air_time_symbols(self) -> int:
        """Until the last device is through, or has stopped."""
        return int((self.start_symbol + self.symbols).max(initial=0))

    @property
    def total_resource_elements(self) -> int:
        """Of all devices."""
        return int(self.resource_elements.sum())


@dataclass(frozen=True)
class Demand:
    """What the messages take if nothing cuts them off, as an error model says; all [devices], fields as in
    `DigitalOutcome`, counts as whole floats; decoded: free of errors after the last transmission."""

    rate: Array
    resource_elements: Array
    bits_on_air: Array
    block_error_rate: Array
    decoded: NDArray[np.bool_]
