"""The downlink: the server broadcasts the model, the seed of the mask and beta to all devices."""

import math
import sys
from dataclasses import dataclass

import numpy as np

from channels.digital.shannon import check_count
from channels.grid import OfdmaGrid


@dataclass(frozen=True)
class Broadcast:
    """The cost of a broadcast.

    Attributes:
        bits: Payload in bits, the same for all devices.
        resource_elements: Number of resource elements.
        ofdm_symbols: Number of OFDM symbols, with a partial last one counted in full.
        air_time_s: Duration in s.
        energy: Transmit energy of the server, in the unit of `element_energy` in `broadcast_cost`.
    """

    bits: int
    resource_elements: int
    ofdm_symbols: int
    air_time_s: float
    energy: float


def downlink_bits(
    dimension: int, bits_per_value: int = 32, seed_bits: int = 64, beta_bits: int = 32, feedback_bits: int = 0
) -> int:
    """Return the bits of a round's broadcast: the model of `dimension` values, the mask's seed, beta and feedback."""
    return dimension * bits_per_value + seed_bits + beta_bits + feedback_bits


def broadcast_cost(bits: int, rate: float, grid: OfdmaGrid, element_energy: float) -> Broadcast:
    """Return the cost of an error-free broadcast of `bits` bits at the capacity of the weakest device.

    rate: that capacity in bits per resource element, on all used subcarriers; element_energy: transmit energy of the
    server per resource element.
    Raises ValueError for negative bits, a negative energy, and a rate that is negative or nan; OverflowError if the
    number of resource elements exceeds a 64-bit integer.
    """
    if bits < 0:
        raise ValueError(f"bits must be at least 0, got {bits}")
    if not rate >= 0:
        raise ValueError(f"rate must be at least 0 bits per resource element, got {rate:g}")
    if not 0 <= element_energy < math.inf:
        raise ValueError(f"element_energy must be finite and at least 0, got {element_energy:g}")
    elements = float(np.ceil(bits / max(rate, sys.float_info.min)))
    check_count(elements)
    use = grid.occupy(int(elements))
    return Broadcast(
        bits=bits,
        resource_elements=use.resource_elements,
        ofdm_symbols=use.ofdm_symbols,
        air_time_s=use.air_time_s,
        energy=use.resource_elements * element_energy,
    )
