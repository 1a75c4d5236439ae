"""The downlink: the server broadcasts the model, the mask's seed and beta to every device that listens."""

import math
import sys
from dataclasses import dataclass

import numpy as np

from channels.digital.shannon import check_count
from channels.grid import OfdmaGrid


@dataclass(frozen=True)
class Broadcast:
    """What a broadcast takes.

    Attributes:
        bits: Payload in bits, which every listener gets.
        resource_elements: Resource elements that it occupies.
        ofdm_symbols: OFDM symbols that it occupies, the last one counted whole.
        air_time_s: Duration in s.
        energy: Transmit energy of the server, in the unit of the energy of a resource element that it was made with.
    """

    bits: int
    resource_elements: int
    ofdm_symbols: int
    air_time_s: float
    energy: float


def downlink_bits(
    dimension: int, bits_per_value: int = 32, seed_bits: int = 64, beta_bits: int = 32, feedback_bits: int = 0
) -> int:
    """Bits of a round's broadcast: the model of `dimension` values, the mask's seed, beta, and other feedback."""
    return dimension * bits_per_value + seed_bits + beta_bits + feedback_bits


def broadcast_cost(bits: int, rate: float, grid: OfdmaGrid, element_energy: float) -> Broadcast:
    """Cost of `bits` bits that every device must hear, error-free at the capacity of the weakest listener.

    rate: that capacity, in bits a resource element, on all used subcarriers; element_energy: what the server spends on
    a resource element.
    Raises ValueError for negative bits, a negative energy and a rate that is negative or nan; OverflowError where it
    takes more resource elements than a 64-bit integer counts.
    """
    if bits < 0:
        raise ValueError(f"a broadcast of {bits} bits: it cannot be negative")
    if not rate >= 0:
        raise ValueError(f"a broadcast at {rate:g} bits a resource element: a rate is never below 0")
    if not 0 <= element_energy < math.inf:
        raise ValueError(f"an energy of {element_energy:g} a resource element: it must be finite and not negative")
    wanted = float(np.ceil(bits / max(rate, sys.float_info.min)))
    check_count(wanted)
    use = grid.occupy(int(wanted))
    return Broadcast(
        bits=bits,
        resource_elements=use.resource_elements,
        ofdm_symbols=use.ofdm_symbols,
        air_time_s=use.air_time_s,
        energy=use.resource_elements * element_energy,
    )
