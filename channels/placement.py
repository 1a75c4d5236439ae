"""Which resource element an entry of a message goes to, and so which coefficient of a selective channel it meets.

Elements are filled subcarrier first, beginning at a random one that both ends know and going round. The energy of a
message over a selective channel then is, in expectation over that start, its norm squared times the mean of the squared
precoders, whatever the message looks like: the figure that power control keeps to.
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
    """Consecutive elements of a message that fill the same subcarriers in some consecutive symbols of one block.

    Attributes:
        elements: Which elements of the message, symbols x width of them.
        block: Index of the block of time.
        subcarriers: From the first to the last + 1, as indices of the frame's used subcarriers.
    """

    elements: slice
    block: int
    subcarriers: slice

    @property
    def width(self) -> int:
        """Elements a symbol."""
        return int(self.subcarriers.stop - self.subcarriers.start)


@dataclass(frozen=True)
class Placement:
    """Element e of a message sits on element (e + start) mod n of the frame's n elements.

    Attributes:
        frame: The resource elements of the message.
        start: Element of the frame on which the message's first sits, 0 to n - 1.
    """

    frame: Frame
    start: int

    def pieces(self) -> list[Piece]:
        """The message cut into pieces, in order: whole symbols of a block together, symbols in part by themselves."""
        first = self.frame.elements - self.start  # of the message's elements, those before the turn
        return [*self._run(0, first, self.start), *self._run(first, self.frame.elements, 0)]

    def _run(self, begin: int, end: int, where: int) -> Iterator[Piece]:
        """Pieces of the elements from `begin` to `end`, which sit from element `where` of the frame on."""
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
        """Coefficients [blocks, subcarriers] (or length 1) as the elements of a message meet them, [n]."""
        frame = self.frame
        every = coefficients.expand(-1, frame.subcarriers)
        if len(every) == 1:
            every = every.expand(frame.symbols, -1)
        else:
            every = every.repeat_interleave(frame.symbols_per_block, dim=0)
        elements = every.reshape(-1)[: frame.elements]
        return elements.roll(-self.start) if self.start else elements

    def spread_array(self, coefficients: NDArray[Any]) -> NDArray[Any]:
        """The same for numpy arrays."""
        frame = self.frame
        every = np.broadcast_to(coefficients, (len(coefficients), frame.subcarriers))
        if len(every) == 1:
            every = np.broadcast_to(every, (frame.symbols, frame.subcarriers))
        else:
            every = np.repeat(every, frame.symbols_per_block, axis=0)
        return np.roll(every.reshape(-1)[: frame.elements], -self.start)
