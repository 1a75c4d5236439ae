"""rand-k sparsification from a seed that server and devices share (PFELS eq. 9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airfl.stages.masks import shared_coordinates
from airfl.stages.stage import Batch, Coder, MessageBound
from airfl.streams import Streams

if TYPE_CHECKING:
    from torch import Tensor, device


@dataclass(frozen=True)
class RandK:
    """A^t: the same k of d coordinates for all devices of a round, every subset equally likely; decoded by A^T.

    rescale divides the decoded update by p = k/d: unbiased, at 1/p times the noise. Without it the estimate is p times
    the mean (lemma 1). The kept coordinates are in ascending order, so that k = d is the identity.
    """

    dimension: int
    kept: int
    rescale: bool

    @property
    def ratio(self) -> float:
        """p = k/d, as kept."""
        return self.kept / self.dimension

    def bound(self, before: MessageBound) -> MessageBound:
        """A masked vector may keep its whole norm; its mean square is p times that (lemma 5, eq. 34)."""
        return MessageBound(self.kept, before.peak, before.rms * math.sqrt(self.ratio))

    def open(self, streams: Streams, round_index: int, device: device) -> Coder:
        """Draw the mask omega of this round."""
        import torch

        coordinates = shared_coordinates(streams, round_index, self.dimension, self.kept)
        kept = torch.from_numpy(coordinates).to(device)
        gain = 1 / self.ratio if self.rescale else 1.0

        def encode(batch: Batch) -> Batch:
            return Batch(batch.values.index_select(1, kept), batch.scale)

        def decode(mean: Tensor) -> Tensor:
            return mean.new_zeros(self.dimension).index_copy_(0, kept, mean * gain if self.rescale else mean)

        return Coder(encode=encode, decode=decode, noise_gain=gain, coordinates=coordinates)
