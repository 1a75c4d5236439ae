"""The OFDMA grid: how many resource elements, OFDM symbols and seconds a message of m real entries takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from channels.frame import Frame
from channels.numerology import (
    MOST_RESOURCE_BLOCKS,
    SUBCARRIERS_PER_RESOURCE_BLOCK,
    Numerology,
    numerology,
    subcarriers_of,
)

__all__ = [
    "GridUse",
    "OfdmaGrid",
    "Packing",
    "default_symbol_duration_s",
    "exact_grid",
    "subcarriers_of",
    "used_from",
]

Packing = Literal["real", "iq"]


def default_symbol_duration_s(spacing_hz: float) -> float:
    """Mean OFDM symbol duration under the normal cyclic prefix: a slot of 14 symbols lasts 15 useful durations.

    At 15 kHz that is 1 ms / 14 = 71.43 us (3GPP TS 38.211, section 5.3.1).
    """
    return 15.0 / (14.0 * spacing_hz)


@dataclass(frozen=True)
class GridUse:
    """What a transmission occupies.

    Attributes:
        resource_elements: Uses of one subcarrier in one symbol.
        subcarriers: Different subcarriers in use.
        ofdm_symbols: OFDM symbols, the last one counted whole.
        air_time_s: Duration in s.
    """

    resource_elements: int
    subcarriers: int
    ofdm_symbols: int
    air_time_s: float


@dataclass(frozen=True)
class OfdmaGrid:
    """K subcarriers, used by all devices at once (superposed) or shared among them (orthogonal).

    Attributes:
        subcarriers: Subcarriers of the carrier.
        symbol_duration_s: Duration of an OFDM symbol with its cyclic prefix in s.
        packing: "real" puts one entry on the real part of a resource element, "iq" two entries on one complex element.
        spacing_hz: Subcarrier spacing in Hz.
        used: Indices of the subcarriers that may be used, 0 is the lowest; K is their number in every count. None for
            all.
        numerology: Where given, air time is exact by it, from the start of a subframe on, instead of symbols x
            symbol_duration_s.

    Raises ValueError for counts and indices that make no grid, and for what the numerology does not allow.
    """

    subcarriers: int
    symbol_duration_s: float
    packing: Packing = "real"
    spacing_hz: float = 15e3
    used: tuple[int, ...] | None = None
    numerology: Numerology | None = None

    def __post_init__(self) -> None:
        _check_count(self.subcarriers)
        for value, what in ((self.spacing_hz, "a subcarrier spacing in Hz"), (self.symbol_duration_s, "a symbol in s")):
            if not 0 < value < math.inf:
                raise ValueError(f"{what} of {value:g}: it must be positive and finite")
        if self.used is not None:
            _check_used(self.used, self.subcarriers)
        if self.numerology is not None:
            _check_carrier(self.numerology, self.spacing_hz, self.subcarriers)

    @property
    def used_subcarriers(self) -> int:
        """K, the subcarriers that may be used."""
        return self.subcarriers if self.used is None else len(self.used)

    @property
    def symbols_per_slot(self) -> int:
        """14, or 12 with the extended cyclic prefix."""
        return 14 if self.numerology is None else self.numerology.symbols_per_slot

    @property
    def mean_symbol_s(self) -> float:
        """Mean duration of an OFDM symbol with its prefix."""
        return self.symbol_duration_s if self.numerology is None else self.numerology.mean_symbol_s

    def elements_for(self, entries: int) -> int:
        """Resource elements for `entries` real entries: m, or ceil(m/2) under I/Q packing."""
        return entries if self.packing == "real" else -(-entries // 2)

    def occupy(self, resource_elements: int) -> GridUse:
        """Grid use of that many resource elements, filled subcarrier first: ceil(elements / K) symbols."""
        symbols = -(-resource_elements // self.used_subcarriers)
        return GridUse(
            resource_elements=resource_elements,
            subcarriers=min(resource_elements, self.used_subcarriers),
            ofdm_symbols=symbols,
            air_time_s=self.air_time_s(symbols),
        )

    def frame(self, entries: int, symbols_per_block: int) -> Frame:
        """Where a message of `entries` real entries lies, in blocks of `symbols_per_block` OFDM symbols.

        Frequencies are centred on the carrier: (index - subcarriers // 2) x spacing_hz; a message shorter than a symbol
        has its lowest used subcarriers only. Raises ValueError for no entries or no symbols in a block.
        """
        if entries < 1:
            raise ValueError(f"a frame of {entries} entries: at least 1 is needed")
        if symbols_per_block < 1:
            raise ValueError(f"blocks of {symbols_per_block} OFDM symbols: at least 1 is needed")
        elements = self.elements_for(entries)
        indices = np.arange(self.subcarriers) if self.used is None else np.sort(np.array(self.used))
        return Frame(
            frequencies_hz=self.spacing_hz * np.asarray(indices[:elements] - self.subcarriers // 2, dtype=np.float64),
            elements=elements,
            symbol_s=self.mean_symbol_s,
            symbols_per_block=symbols_per_block,
        )

    def air_time_s(self, symbols: int) -> float:
        """Of that many OFDM symbols."""
        return symbols * self.symbol_duration_s if self.numerology is None else self.numerology.air_time_s(symbols)


def exact_grid(
    subcarriers: int,
    spacing_hz: float,
    prefix: str = "normal",
    packing: Packing = "real",
    used: tuple[int, ...] | None = None,
) -> OfdmaGrid:
    """A grid whose air time is exact by the NR numerology of that spacing and cyclic prefix."""
    exact = numerology(spacing_hz, prefix)
    return OfdmaGrid(subcarriers, exact.mean_symbol_s, packing, exact.spacing_hz, used, exact)


def used_from(ranges: Iterable[Sequence[int]] | None, every: int = 1, *, subcarriers: int) -> tuple[int, ...]:
    """Indices of used subcarriers, ascending: of each range (first, last), both included, every `every`-th from its
    first on. None is the one range of all `subcarriers`. Raises ValueError for a range that is empty or leaves the
    grid, and for ranges that meet.
    """
    _check_count(subcarriers)
    if every < 1:
        raise ValueError(f"every {every}th subcarrier: 1 is every one, 2 every other")
    indices: list[int] = []
    for limits in [(0, subcarriers - 1)] if ranges is None else ranges:
        if len(limits) != 2:
            raise ValueError(f"a range of subcarriers {list(limits)}: it is two numbers, the first and the last")
        first, last = limits
        if not 0 <= first <= last < subcarriers:
            raise ValueError(
                f"subcarriers {first} to {last} of {subcarriers}: a range goes up, within 0 to {subcarriers - 1}"
            )
        indices.extend(range(first, last + 1, every))
    _check_used(indices, subcarriers)
    return tuple(sorted(indices))


def _check_count(subcarriers: int) -> None:
    if not isinstance(subcarriers, int | np.integer) or subcarriers < 1:
        raise ValueError(f"a grid of {subcarriers} subcarriers: a whole number of at least 1 is needed")


def _check_used(used: Iterable[int], subcarriers: int) -> None:
    indices = np.array(list(used))
    if not len(indices):
        raise ValueError("no subcarrier is used: name at least one, or none at all for every one")
    if indices.dtype.kind != "i":
        raise ValueError(f"used subcarriers {indices[:3].tolist()} ...: indices are whole numbers")
    outside = indices[(indices < 0) | (indices >= subcarriers)]
    if len(outside):
        raise ValueError(f"subcarrier {outside[0]} of {subcarriers}: indices lie within 0 to {subcarriers - 1}")
    values, counts = np.unique(indices, return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"subcarrier {values[counts.argmax()]} is named more than once: name each used one once")


def _check_carrier(exact: Numerology, spacing_hz: float, subcarriers: int) -> None:
    if spacing_hz != exact.spacing_hz:
        raise ValueError(
            f"a spacing of {spacing_hz:g} Hz with a numerology of {exact.spacing_hz:g} Hz: give both the same spacing"
        )
    most = MOST_RESOURCE_BLOCKS * SUBCARRIERS_PER_RESOURCE_BLOCK
    if subcarriers > most:
        raise ValueError(
            f"{subcarriers} subcarriers with an NR numerology: a carrier has at most {MOST_RESOURCE_BLOCKS} resource "
            f"blocks, {most} subcarriers; take fewer, or approximate symbols of equal duration"
        )
