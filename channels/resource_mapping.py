"""Mapping of message entries to resource elements, and thereby to coefficients of a selective channel.

Elements are filled subcarrier first and cyclically, starting at a random element known to both ends. In expectation
over the start, the energy of a message over a selective channel is therefore its squared norm times the mean of the
squared precoders, for any message. Power control uses this expected energy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from channels.frame import Frame

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Piece:
    """Consecutive elements of a message that fill the same subcarriers in consecutive symbols of one block.

    Attributes:
        elements: Range of message elements, symbols x width of them.
        block: Index of the time block.
        subcarriers: Range of indices into the frame's used subcarriers.
    """

    elements: slice
    block: int
    subcarriers: slice

    @property
    def width(self) -> int:
        """Number of elements per symbol."""
        return int(self.subcarriers.stop - self.subcarriers.start)


@dataclass(frozen=True)
class ResourceMapping:
    """Cyclic mapping of element e of a message to element (e + start) mod n of the frame's n elements.

    Attributes:
        frame: The resource elements of the message.
        start: Frame element of the message's first element, 0 to n - 1.
    """

    frame: Frame
    start: int

    def pieces(self) -> list[Piece]:
        """Split the message into pieces, in order: complete symbols of a block together, partial symbols separately."""
        first = self.frame.elements - self.start  # number of message elements before the wrap-around
        return [*self._run(0, first, self.start), *self._run(first, self.frame.elements, 0)]

    def _run(self, begin: int, end: int, where: int) -> Iterator[Piece]:
        """Yield the pieces of elements `begin` to `end`, which are mapped to the frame from element `where` on."""
        k, per_block = self.frame.subcarriers, self.frame.symbols_per_block
        while begin < end:
            symbol, subcarrier = divmod(where, k)
            block = symbol // per_block
            left = end - begin
            if subcarrier or left < k:
                count = min(k - subcarrier, left)
                columns = slice(subcarrier, subcarrier + count)
            else:
                count = min((block + 1) * per_block - symbol, left // k) * k
                columns = slice(0, k)
            yield Piece(slice(begin, begin + count), block, columns)
            begin, where = begin + count, where + count

    def spread(self, coefficients: Tensor) -> Tensor:
        """Expand coefficients [blocks, subcarriers] (or length 1) to the elements of a message, [n]."""
        frame = self.frame
        every = coefficients.expand(-1, frame.subcarriers)
        if len(every) == 1:
            every = every.expand(frame.symbols, -1)
        else:
            every = every.repeat_interleave(frame.symbols_per_block, dim=0)
        elements = every.reshape(-1)[: frame.elements]
        return elements.roll(-self.start) if self.start else elements

    def spread_array(self, coefficients: NDArray[Any]) -> NDArray[Any]:
        """Return the result of `spread` for numpy arrays."""
        frame = self.frame
        every = np.broadcast_to(coefficients, (len(coefficients), frame.subcarriers))
        if len(every) == 1:
            every = np.broadcast_to(every, (frame.symbols, frame.subcarriers))
        else:
            every = np.repeat(every, frame.symbols_per_block, axis=0)
        return np.roll(every.reshape(-1)[: frame.elements], -self.start)
