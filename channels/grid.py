"""The OFDMA grid: resource elements, OFDM symbols and air time of a message of m real entries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from channels.frame import Frame
from channels.numerology import (
    MAX_RESOURCE_BLOCKS,
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
    """Return the mean OFDM symbol duration with the normal cyclic prefix: 14 symbols last 15 useful durations.

    At 15 kHz that is 1 ms / 14 = 71.43 us (3GPP TS 38.211, section 5.3.1).
    """
    return 15.0 / (14.0 * spacing_hz)


@dataclass(frozen=True)
class GridUse:
    """Resources that a transmission occupies.

    Attributes:
        resource_elements: Number of resource elements (one subcarrier in one symbol).
        subcarriers: Number of different subcarriers.
        ofdm_symbols: Number of OFDM symbols, with a partial last one counted in full.
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
        subcarriers: Number of subcarriers of the carrier.
        symbol_duration_s: Duration of an OFDM symbol with its cyclic prefix in s.
        packing: "real" puts one entry on the real part of a resource element, "iq" two entries on one complex element.
        spacing_hz: Subcarrier spacing in Hz.
        used: Indices of the subcarriers that may be used, counted from the lowest; K is their number. None for all.
        numerology: NR numerology for exact air times from the start of a subframe; None for symbols x
            symbol_duration_s.

    Raises ValueError for invalid counts and indices, and for a grid that does not fit the numerology.
    """

    subcarriers: int
    symbol_duration_s: float
    packing: Packing = "real"
    spacing_hz: float = 15e3
    used: tuple[int, ...] | None = None
    numerology: Numerology | None = None

    def __post_init__(self) -> None:
        _check_count(self.subcarriers)
        for value, name in ((self.spacing_hz, "spacing_hz"), (self.symbol_duration_s, "symbol_duration_s")):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value:g}")
        if self.used is not None:
            _check_used(self.used, self.subcarriers)
        if self.numerology is not None:
            _check_carrier(self.numerology, self.spacing_hz, self.subcarriers)

    @property
    def used_subcarriers(self) -> int:
        """K, the number of subcarriers that may be used."""
        return self.subcarriers if self.used is None else len(self.used)

    @property
    def symbols_per_slot(self) -> int:
        """Number of OFDM symbols per slot: 14, or 12 with the extended cyclic prefix."""
        return 14 if self.numerology is None else self.numerology.symbols_per_slot

    @property
    def mean_symbol_s(self) -> float:
        """Mean duration of an OFDM symbol with its prefix in s."""
        return self.symbol_duration_s if self.numerology is None else self.numerology.mean_symbol_s

    def elements_for(self, entries: int) -> int:
        """Return the number of resource elements for m = `entries` real entries: m, or ceil(m/2) under I/Q packing."""
        return entries if self.packing == "real" else -(-entries // 2)

    def occupy(self, resource_elements: int) -> GridUse:
        """Return the grid use of a number of resource elements, filled subcarrier first: ceil(elements / K) symbols."""
        symbols = -(-resource_elements // self.used_subcarriers)
        return GridUse(
            resource_elements=resource_elements,
            subcarriers=min(resource_elements, self.used_subcarriers),
            ofdm_symbols=symbols,
            air_time_s=self.air_time_s(symbols),
        )

    def frame(self, entries: int, symbols_per_block: int) -> Frame:
        """Return the frame of a message of `entries` real entries, in blocks of `symbols_per_block` OFDM symbols.

        Frequencies are centred on the carrier: (index - subcarriers // 2) x spacing_hz. A message shorter than a symbol
        occupies only the lowest used subcarriers. Raises ValueError if a count is below 1.
        """
        if entries < 1:
            raise ValueError(f"entries of a frame must be at least 1, got {entries}")
        if symbols_per_block < 1:
            raise ValueError(f"symbols_per_block must be at least 1, got {symbols_per_block}")
        elements = self.elements_for(entries)
        indices = np.arange(self.subcarriers) if self.used is None else np.sort(np.array(self.used))
        return Frame(
            frequencies_hz=self.spacing_hz * np.asarray(indices[:elements] - self.subcarriers // 2, dtype=np.float64),
            elements=elements,
            symbol_s=self.mean_symbol_s,
            symbols_per_block=symbols_per_block,
        )

    def air_time_s(self, symbols: int) -> float:
        """Return the air time of a number of OFDM symbols in s."""
        return symbols * self.symbol_duration_s if self.numerology is None else self.numerology.air_time_s(symbols)


def exact_grid(
    subcarriers: int,
    spacing_hz: float,
    prefix: str = "normal",
    packing: Packing = "real",
    used: tuple[int, ...] | None = None,
) -> OfdmaGrid:
    """Return a grid with exact air times of the NR numerology with that spacing and cyclic prefix."""
    exact = numerology(spacing_hz, prefix)
    return OfdmaGrid(subcarriers, exact.mean_symbol_s, packing, exact.spacing_hz, used, exact)


def used_from(ranges: Iterable[Sequence[int]] | None, every: int = 1, *, subcarriers: int) -> tuple[int, ...]:
    """Return the indices of used subcarriers, ascending.

    Of each range (first, last), both included, every `every`-th subcarrier is used, beginning with the first. `ranges`
    of None is a single range of all `subcarriers`. Raises ValueError for a range that is empty or outside the grid, and
    for overlapping ranges.
    """
    _check_count(subcarriers)
    if every < 1:
        raise ValueError(f"the step between used subcarriers must be at least 1 (all of them), got {every}")
    indices: list[int] = []
    for limits in [(0, subcarriers - 1)] if ranges is None else ranges:
        if len(limits) != 2:
            raise ValueError(f"a range of subcarriers must be [first, last], got {list(limits)}")
        first, last = limits
        if not 0 <= first <= last < subcarriers:
            raise ValueError(
                f"a range of subcarriers must be ascending and within 0 to {subcarriers - 1}, got {first} to {last}"
            )
        indices.extend(range(first, last + 1, every))
    _check_used(indices, subcarriers)
    return tuple(sorted(indices))


def _check_count(subcarriers: int) -> None:
    if not isinstance(subcarriers, int | np.integer) or subcarriers < 1:
        raise ValueError(f"the number of subcarriers must be an integer of at least 1, got {subcarriers}")


def _check_used(used: Iterable[int], subcarriers: int) -> None:
    indices = np.array(list(used))
    if not len(indices):
        raise ValueError("no subcarrier is used; give at least one, or leave the setting out to use all")
    if indices.dtype.kind != "i":
        raise ValueError(f"indices of used subcarriers must be integers, got {indices[:3].tolist()} ...")
    outside = indices[(indices < 0) | (indices >= subcarriers)]
    if len(outside):
        raise ValueError(f"indices of used subcarriers must be within 0 to {subcarriers - 1}, got {outside[0]}")
    values, counts = np.unique(indices, return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"subcarrier {values[counts.argmax()]} is used more than once; give each one once")


def _check_carrier(exact: Numerology, spacing_hz: float, subcarriers: int) -> None:
    if spacing_hz != exact.spacing_hz:
        raise ValueError(f"spacing_hz must be that of the numerology, {exact.spacing_hz:g}, got {spacing_hz:g}")
    most = MAX_RESOURCE_BLOCKS * SUBCARRIERS_PER_RESOURCE_BLOCK
    if subcarriers > most:
        raise ValueError(
            f"an NR carrier has at most {MAX_RESOURCE_BLOCKS} resource blocks ({most} subcarriers), got {subcarriers} "
            "subcarriers; use fewer, or no numerology (symbols of equal duration)"
        )
