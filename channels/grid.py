"""The OFDMA grid: how many resource elements, OFDM symbols and seconds a message of m real entries takes."""

from dataclasses import dataclass
from typing import Literal

Packing = Literal["real", "iq"]


def default_symbol_duration_s(spacing_hz: float) -> float:
    """Mean OFDM symbol duration under the normal cyclic prefix: a slot of 14 symbols lasts 15 useful durations.

    At 15 kHz that is 1 ms / 14 = 71.43 us (3GPP TS 38.211, section 5.3.1).
    """
    return 15.0 / (14.0 * spacing_hz)


@dataclass(frozen=True)
class GridUse:
    """What a transmission occupies: subcarrier x symbol uses, subcarriers, OFDM symbols, air time."""

    resource_elements: int
    subcarriers: int
    ofdm_symbols: int
    air_time_s: float


@dataclass(frozen=True)
class OfdmaGrid:
    """K subcarriers, used by all devices at once (superposed) or shared among them (orthogonal).

    subcarriers: K; symbol_duration_s: with its cyclic prefix; packing: "real" puts one entry on the real part of a
    resource element, "iq" two entries on one complex element.
    """

    subcarriers: int
    symbol_duration_s: float
    packing: Packing = "real"

    def elements_for(self, entries: int) -> int:
        """Resource elements for `entries` real entries: m, or ceil(m/2) under I/Q packing."""
        return entries if self.packing == "real" else -(-entries // 2)

    def occupy(self, resource_elements: int) -> GridUse:
        """Grid use of that many resource elements, filled subcarrier first: ceil(elements / K) symbols."""
        symbols = -(-resource_elements // self.subcarriers)
        return GridUse(
            resource_elements=resource_elements,
            subcarriers=min(resource_elements, self.subcarriers),
            ofdm_symbols=symbols,
            air_time_s=symbols * self.symbol_duration_s,
        )
