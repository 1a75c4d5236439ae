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

    Attributes:
        bits: Payload in bits, [devices].
        known: |hhat|^2 added up over antennas and without what leaks, [devices, blocks, elements]; elements is 1 for a
            flat channel, else the K subcarriers.
        true: |h|^2 of the true channel, shape and meaning as `known`.
        symbol_energy: What a device transmits in an OFDM symbol, [devices], in the unit of `noise_energy`.
        noise_energy: Noise on a resource element, with interference.
        subcarriers: K, subcarriers in use.
        concentrate: Whether a device's energy is spread over its own subcarriers; else every subcarrier has
            symbol_energy/K whoever uses it.
        deadline_symbols: OFDM symbols from the start of the round until the deadline, inf for none.
        allocation: Who gets how many subcarriers.
        error_model: At which rates devices send, and what arrives.
        uniforms: Function of a count that gives numbers in [0, 1), [devices, count]; asked once at most.
        offsets: Timing and frequency offsets of the devices, None for none.
        coupling: Share of device j's power, all antennas together, that the maximum-ratio weights of device i let
            through, [i, j]; 1 of its own. None of one antenna, which lets all through.
        spilled: Power that a device's late paths put beside an element for one unit on each, the mean over antennas,
            [devices, blocks, K]; None where no path is late.
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
    """What became of the messages.

    Attributes:
        subcarriers: K_i, [devices].
        rate: Payload bits per resource element of the first transmission, [devices].
        resource_elements: Used by all transmissions together, [devices].
        symbols: Air time in OFDM symbols, the last one counted whole, [devices].
        start_symbol: OFDM symbol of the round in which a device begins, [devices].
        energy: Of the resource elements used, [devices], in the unit of the task's `symbol_energy`.
        bits_on_air: Payload bits times transmissions made, [devices].
        block_error_rate: Of a first transmission, [devices]: 1 where the channel is known to be dead, 0 where there is
            nothing to send.
        heard: Whether the whole message arrived in time, [devices].
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


@dataclass(frozen=True)
class Demand:
    """What the messages take if nothing cuts them off, as an error model says. Counts are whole floats.

    Attributes:
        rate: Payload bits per resource element of the first transmission, [devices].
        resource_elements: Wanted by all transmissions together, [devices].
        bits_on_air: Payload bits times transmissions, [devices].
        block_error_rate: Of a first transmission, [devices].
        decoded: Whether the message is free of errors after the last transmission, [devices].
    """

    rate: Array
    resource_elements: Array
    bits_on_air: Array
    block_error_rate: Array
    decoded: NDArray[np.bool_]
