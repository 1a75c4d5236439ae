"""A random rotation shared by server and devices, which spreads the energy of a vector evenly over its entries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from airfl.runtime.streams import Purpose
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Rotation:
    """Rotation x -> H diag(s) x/sqrt(n), with the Walsh-Hadamard matrix H and random signs s of the round (Suresh et
    al. 2017; cpSGD, section 5).

    H exists for powers of two, so the vector is zero-padded to n = 2^ceil(log2 d) entries, which is the length of the
    message. Norms are preserved.

    Attributes:
        dimension: d, entries before padding.
        lipschitz: 1, as distances are preserved.
        noise_adds_up: Whether it is the same linear map for all devices, see `Stage`.
    """

    dimension: int
    lipschitz: ClassVar[float] = 1.0
    noise_adds_up: ClassVar[bool] = True

    @property
    def padded(self) -> int:
        """n, the entries of the message."""
        return 1 << (self.dimension - 1).bit_length()

    def bound(self, before: MessageBound) -> MessageBound:
        """Keep norms and noise. All n entries are sent."""
        return replace(before, entries=self.padded, values=-1)

    def open(self, opened: Round) -> Coder:
        """Draw the signs of this round."""
        drawn = opened.streams.generator(Purpose.ROTATION, opened.index).random(self.padded) < 0.5
        signs = on_device(np.where(drawn, -1.0, 1.0).astype(np.float32), opened.device)
        scale = 1 / sqrt(self.padded)

        def rotate(vectors: Tensor) -> Tensor:
            whole = vectors.new_zeros(len(vectors), self.padded)
            whole[:, : self.dimension] = vectors * signs[: self.dimension].to(vectors)
            return walsh_hadamard(whole) * scale

        def encode(batch: Batch) -> Batch:
            return replace(batch, values=rotate(batch.values), coordinates=None)

        def expand(messages: Tensor) -> Tensor:
            return (walsh_hadamard(messages) * scale)[:, : self.dimension] * signs[: self.dimension].to(messages)

        return Coder(encode, decode=lambda mean: expand(mean.unsqueeze(0))[0], expand=expand)


def walsh_hadamard(vectors: Tensor) -> Tensor:
    """Return H x for every row, [rows, n], n a power of two. H H = n I, with the rows of H in natural (Sylvester)
    order."""
    rows, entries = vectors.shape
    half = 1
    while half < entries:
        pairs = vectors.reshape(rows, entries // (2 * half), 2, half)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        vectors = vectors.new_empty(pairs.shape)
        vectors[:, :, 0], vectors[:, :, 1] = first + second, first - second
        half *= 2
    return vectors.reshape(rows, entries)
