"""OFDM numerologies of 5G NR: exact symbol, cyclic prefix and air time durations in units of T_c (3GPP TS 38.211)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Prefix = Literal["normal", "extended"]

TC_PER_S = 480_000 * 4096
"""1/T_c in 1/s; T_c = 1/(480 kHz 4096) is the unit of all durations (clause 4.1)."""
KAPPA = 64
"""T_s/T_c, T_s = 1/(15 kHz 2048) (clause 4.1)."""

SUBCARRIERS_PER_RESOURCE_BLOCK = 12
MAX_RESOURCE_BLOCKS = 275
"""Largest number of resource blocks of a carrier (clause 4.4.2): 3300 subcarriers."""


@dataclass(frozen=True)
class Numerology:
    """A subcarrier spacing of 2^mu 15 kHz and a cyclic prefix (tables 4.2-1, 4.3.2-1 and 4.3.2-2).

    Symbols are numbered from the start of a subframe (1 ms). Numbers beyond a subframe are allowed, because all
    subframes are equal.

    Attributes:
        mu: Numerology of 3GPP TS 38.211, 0 to 3.
        prefix: Cyclic prefix; "extended" is defined only at 60 kHz (mu = 2).

    Raises ValueError for a mu other than 0 to 3, and for the extended prefix at a spacing other than 60 kHz.
    """

    mu: int
    prefix: Prefix = "normal"

    def __post_init__(self) -> None:
        if self.mu not in range(4):
            raise ValueError(f"mu must be from 0 to 3 (15 to 120 kHz), got {self.mu}")
        if self.prefix == "extended" and self.mu != 2:
            raise ValueError(f"the extended cyclic prefix is defined only at 60 kHz, got {self.spacing_hz / 1e3:g} kHz")

    @property
    def spacing_hz(self) -> float:
        """Subcarrier spacing in Hz."""
        return 15e3 * self.slots_per_subframe

    @property
    def symbols_per_slot(self) -> int:
        """Number of OFDM symbols per slot: 14, or 12 with the extended prefix."""
        return 14 if self.prefix == "normal" else 12

    @property
    def slots_per_subframe(self) -> int:
        """Number of slots per subframe, 2^mu."""
        return int(2**self.mu)

    @property
    def symbols_per_subframe(self) -> int:
        """Number of OFDM symbols per subframe (1 ms)."""
        return self.symbols_per_slot * self.slots_per_subframe

    @property
    def useful_tc(self) -> int:
        """Duration of a symbol without its prefix, in T_c: 2048 kappa 2^-mu (clause 5.3.1)."""
        return 2048 * KAPPA >> self.mu

    @property
    def short_prefix_tc(self) -> int:
        """Duration of the prefix of most symbols, in T_c: 144 (extended: 512) kappa 2^-mu (clause 5.3.1)."""
        return (144 if self.prefix == "normal" else 512) * KAPPA >> self.mu

    @property
    def shortest_prefix_s(self) -> float:
        """Duration of the shortest cyclic prefix in s: the largest delay without inter-symbol interference."""
        return self.short_prefix_tc / TC_PER_S

    @property
    def mean_symbol_s(self) -> float:
        """Mean duration of a symbol with its prefix in s: 1 ms over the number of symbols per subframe."""
        return 1e-3 / self.symbols_per_subframe

    def air_time_tc(self, symbols: int, first: int = 0) -> int:
        """Return the duration of `symbols` symbols from number `first` on in T_c; neither may be negative."""
        if symbols < 0 or first < 0:
            raise ValueError(f"symbols and first must not be negative, got {symbols} and {first}")
        return self._until_tc(first + symbols) - self._until_tc(first)

    def air_time_s(self, symbols: int, first: int = 0) -> float:
        """Return `air_time_tc` in seconds."""
        return self.air_time_tc(symbols, first) / TC_PER_S

    @property
    def _half_subframe(self) -> int:
        """Number of symbols in 0.5 ms with the normal prefix; l = 0 and l = 7 2^mu have the longer prefix."""
        return 7 * self.slots_per_subframe

    def _until_tc(self, symbol_index: int) -> int:
        """Start of a symbol in T_c from the start of symbol 0."""
        longer = -(-symbol_index // self._half_subframe) if self.prefix == "normal" else 0
        return symbol_index * (self.useful_tc + self.short_prefix_tc) + longer * 16 * KAPPA


NUMEROLOGIES: dict[tuple[int, Prefix], Numerology] = {
    (15_000, "normal"): Numerology(0),
    (30_000, "normal"): Numerology(1),
    (60_000, "normal"): Numerology(2),
    (60_000, "extended"): Numerology(2, "extended"),
    (120_000, "normal"): Numerology(3),
}
"""The supported numerologies by subcarrier spacing in Hz and cyclic prefix."""


def numerology(spacing_hz: float, prefix: str = "normal") -> Numerology:
    """Return the numerology of a spacing and cyclic prefix; raise ValueError if it is not supported."""
    for (known_hz, known_prefix), entry in NUMEROLOGIES.items():
        if known_hz == spacing_hz and known_prefix == prefix:
            return entry
    if prefix not in ("normal", "extended"):
        raise ValueError(f'the cyclic prefix must be "normal" or "extended", got "{prefix}"')
    spacings = ", ".join(f"{known_hz // 1000}" for known_hz, known_prefix in NUMEROLOGIES if known_prefix == prefix)
    raise ValueError(
        f"the subcarrier spacing with the {prefix} cyclic prefix must be one of {spacings} kHz, got "
        f"{spacing_hz / 1e3:g} kHz"
    )


def subcarriers_of(resource_blocks: int) -> int:
    """Return the number of subcarriers of that many resource blocks, 12 each; raise ValueError below 1."""
    if resource_blocks < 1:
        raise ValueError(f"the number of resource blocks must be at least 1, got {resource_blocks}")
    return SUBCARRIERS_PER_RESOURCE_BLOCK * resource_blocks
