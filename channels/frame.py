"""Frames: the subcarriers and time blocks on which a channel is evaluated."""

from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def symbols(self) -> int:
        """Number of OFDM symbols, including a partly filled last one."""
        return -(-self.elements // self.subcarriers)

    @cached_property
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

    @cached_property
    def weights(self) -> Array:
        """Share of the elements on each block and subcarrier, [blocks, subcarriers], with sum 1; read-only."""
        symbols = np.zeros((self.blocks, self.subcarriers))
        full, rest = divmod(self.elements, self.subcarriers)
        starts = np.arange(self.blocks) * self.symbols_per_block
        symbols += np.clip(full - starts, 0, self.symbols_per_block)[:, None]
        if rest:
            symbols[-1, :rest] += 1
        symbols /= self.elements
        symbols.flags.writeable = False
        return symbols

    def weights_over(self, shape: tuple[int, ...]) -> Array:
        """Return `weights` for a channel of this shape [blocks, subcarriers]: summed along the axes of length 1, on
        which it is constant. Read-only."""
        if shape not in self._weights_over:
            weights = self.weights
            for axis, length in enumerate(shape):
                if length == 1:
                    weights = weights.sum(axis=axis, keepdims=True)
            weights.flags.writeable = False
            self._weights_over[shape] = weights
        return self._weights_over[shape]

    @cached_property
    def _weights_over(self) -> dict[tuple[int, ...], Array]:
        """What `weights_over` has returned, as every round asks for the same."""
        return {}
