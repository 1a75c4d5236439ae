"""Frames: the subcarriers and time blocks on which a channel is evaluated."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Frame:
    """The resource elements of a round's transmission, filled subcarrier first.

    Attributes:
        frequencies_hz: Frequencies of the used subcarriers relative to the carrier in Hz, ascending, [K].
        elements: Number of resource elements in use; the last symbol may be partly filled.
        symbol_s: Duration of an OFDM symbol with its prefix in s.
        symbols_per_block: Number of OFDM symbols over which the channel is assumed constant.
    """

    frequencies_hz: Array
    elements: int
    symbol_s: float
    symbols_per_block: int

    @property
    def subcarriers(self) -> int:
        """K, the number of used subcarriers."""
        return len(self.frequencies_hz)

    @property
    def symbols(self) -> int:
        """Number of OFDM symbols, including a partly filled last one."""
        return -(-self.elements // self.subcarriers)

    @property
    def blocks(self) -> int:
        """Number of time blocks in which the channel is constant, at least 1."""
        return max(-(-self.symbols // self.symbols_per_block), 1)

    @property
    def block_s(self) -> float:
        """Duration of a block in s."""
        return self.symbols_per_block * self.symbol_s

    @property
    def block_times_s(self) -> Array:
        """Start of every block in s from the start of the transmission, [blocks]."""
        return np.asarray(np.arange(self.blocks) * self.block_s, dtype=np.float64)

    @property
    def weights(self) -> Array:
        """Share of the elements on each block and subcarrier, [blocks, subcarriers], with sum 1."""
        symbols = np.zeros((self.blocks, self.subcarriers))
        full, rest = divmod(self.elements, self.subcarriers)
        starts = np.arange(self.blocks) * self.symbols_per_block
        symbols += np.clip(full - starts, 0, self.symbols_per_block)[:, None]
        if rest:
            symbols[-1, :rest] += 1
        return np.asarray(symbols / self.elements, dtype=np.float64)
