"""Inputs and results of a digital uplink."""

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
    """One message of every device, over the channel of one round.

    Attributes:
        bits: Payload in bits, [devices].
        known: |hhat|^2 summed over antennas, without leakage, [devices, blocks, elements]; elements is 1 for a flat
            channel, else the K subcarriers.
        true: |h|^2 of the true channel, in the shape of `known`.
        symbol_energy: Transmit energy of a device per OFDM symbol, [devices], in the unit of `noise_energy`.
        noise_energy: Energy of noise and Gaussian interference on a resource element.
        subcarriers: K, number of used subcarriers.
        concentrate: Whether a device's energy is concentrated on its own subcarriers; otherwise every subcarrier has
            symbol_energy/K.
        deadline_symbols: OFDM symbols from the start of the round until the deadline, inf for none.
        allocation: Allocation of subcarriers to devices.
        error_model: Rates and decoding errors.
        uniforms: count -> uniform numbers in [0, 1), [devices, count]; called at most once.
        offsets: Timing and frequency offsets of the devices, None for none.
        coupling: Share of device j's power over all antennas that passes the maximum-ratio combiner of device i,
            [i, j], with a diagonal of 1. None for one antenna, which passes everything.
        leaked_power: Power that a device's late paths leak to other elements for unit power on each, averaged over
            antennas, [devices, blocks, K]; None if no path is late.
        effective: Effective SINR of an SINR over `noise_energy`, under interference that is not Gaussian; None for
            none.
        distortion: Power of a transmitter's distortion over that of its useful signal, on each of its elements.
        conversion: Power of the noise of the receiver's converter over that of its input, noise included.
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
    leaked_power: Array | None = None
    effective: Callable[[Array], Array] | None = None
    distortion: float = 0.0
    conversion: float = 0.0


@dataclass(frozen=True)
class DigitalOutcome:
    """The outcome of the messages.

    Attributes:
        subcarriers: K_i, number of subcarriers, [devices].
        rate: Payload bits per resource element of the first transmission, [devices].
        resource_elements: Resource elements used by all transmissions, [devices].
        symbols: Air time in OFDM symbols, with a partial last one counted in full, [devices].
        start_symbol: OFDM symbol of the round in which a device starts, [devices].
        energy: Energy of the used resource elements, [devices], in the unit of the task's `symbol_energy`.
        bits_on_air: Payload bits times number of transmissions, [devices].
        block_error_rate: Block error rate of a first transmission, [devices]: 1 if the estimated channel is 0, 0 if
            there is no message.
        heard: Whether the whole message was received in time, [devices].
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
        """Number of OFDM symbols until the last device is done or has stopped."""
        return int((self.start_symbol + self.symbols).max(initial=0))


@dataclass(frozen=True)
class Demand:
    """Resources that the messages need without a deadline, as returned by an error model. Counts are whole floats.

    Attributes:
        rate: Payload bits per resource element of the first transmission, [devices].
        resource_elements: Resource elements needed by all transmissions, [devices].
        bits_on_air: Payload bits times number of transmissions, [devices].
        block_error_rate: Block error rate of a first transmission, [devices].
        decoded: Whether the message is error-free after the last transmission, [devices].
    """

    rate: Array
    resource_elements: Array
    bits_on_air: Array
    block_error_rate: Array
    decoded: NDArray[np.bool_]
