"""top-k sparsification: the largest coordinates of each device's own update, or those of an update on public data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from airfl.stages.masks import keep
from airfl.stages.stage import Batch, Coder, MessageBound, Round

if TYPE_CHECKING:
    from torch import Tensor


# Beyond that many factors a bit more or less is lost among the rest.
EXACT_UP_TO = 2000


@dataclass(frozen=True)
class OwnTopK:
    """Each device's k coordinates of largest magnitude (Fed-SMP eq. 6); their names go along, which tell of its data.

    Of equal magnitudes the lower coordinate is kept. The message has length d, zeros elsewhere.

    Attributes:
        dimension: d, entries of an update.
        kept: k, coordinates that are sent.
    """

    dimension: int
    kept: int

    def bound(self, before: MessageBound) -> MessageBound:
        """No bound shrinks: a vector may have no more than k entries."""
        return replace(before, values=self.kept, side_bits=before.side_bits + subset_bits(self.dimension, self.kept))

    def open(self, opened: Round) -> Coder:
        """The same in every round."""
        return Coder(self._encode, decode=lambda mean: mean)

    def _encode(self, batch: Batch) -> Batch:
        if self.kept == self.dimension:
            return batch
        kept = largest(batch.values.abs(), self.kept)
        sparse = batch.values.new_zeros(batch.values.shape).scatter_(1, kept, batch.values.gather(1, kept))
        return replace(batch, values=sparse, known_norms=None)


@dataclass(frozen=True)
class PublicTopK:
    """The k coordinates in which the server's own update on public data is largest (Fed-SMP algorithm 2, lines 24 to
    33).

    They are the same for all devices, and tell nothing of anybody's data. Their names go down, where that is charged.

    Attributes:
        dimension: d, entries of an update.
        kept: k, coordinates that are sent.
    """

    dimension: int
    kept: int

    def bound(self, before: MessageBound) -> MessageBound:
        """A masked vector may keep its whole norm, in the mean too: the mask follows what updates have in common."""
        return replace(before, entries=self.kept, mask_bits=subset_bits(self.dimension, self.kept))

    def open(self, opened: Round) -> Coder:
        """The server trains on public data from theta^t."""
        kept = largest(opened.public_update().abs().unsqueeze(0), self.kept)[0]
        coordinates = kept.cpu().numpy().astype(np.int64)

        def encode(batch: Batch) -> Batch:
            return keep(batch, kept, coordinates)

        def decode(mean: Tensor) -> Tensor:
            return mean.new_zeros(self.dimension).index_copy_(0, kept, mean)

        def expand(messages: Tensor) -> Tensor:
            return messages.new_zeros(len(messages), self.dimension).index_copy_(1, kept, messages)

        return Coder(encode, decode, coordinates=coordinates, expand=expand, by_entry=True)


def largest(magnitudes: Tensor, kept: int) -> Tensor:
    """Positions of the k largest of each row, ascending, [rows, d] -> [rows, k]; of equal ones those that are first."""
    import torch

    if magnitudes.is_cuda:
        return largest_there(magnitudes, kept)
    values = magnitudes.numpy()
    rows, entries = values.shape
    least = np.partition(values, entries - kept, axis=1)[:, entries - kept, None]
    chosen = values >= least
    more = np.count_nonzero(chosen, axis=1) - kept
    for row in np.flatnonzero(more):
        chosen[row, np.flatnonzero(values[row] == least[row])[-more[row] :]] = False
    return torch.from_numpy(np.flatnonzero(chosen).reshape(rows, kept) - np.arange(0, rows * entries, entries)[:, None])


def largest_there(magnitudes: Tensor, kept: int) -> Tensor:
    """The same without leaving the device, where numpy's selection, several times as fast on a CPU, cannot go."""
    least = magnitudes.topk(kept, dim=1, sorted=False).values.amin(dim=1, keepdim=True)
    chosen = magnitudes >= least
    if int(chosen.sum()) > kept * len(magnitudes):
        above, tied = magnitudes > least, magnitudes == least
        chosen = above | (tied & (tied.cumsum(dim=1) <= kept - above.sum(dim=1, keepdim=True)))
    return chosen.nonzero()[:, 1].view(len(magnitudes), kept)


def subset_bits(dimension: int, kept: int) -> int:
    """ceil(log2 C(d, k)): bits that name k of d coordinates."""
    if min(kept, dimension - kept) <= EXACT_UP_TO:
        return (math.comb(dimension, kept) - 1).bit_length()
    logs = math.lgamma(dimension + 1) - math.lgamma(kept + 1) - math.lgamma(dimension - kept + 1)
    return math.ceil(logs / math.log(2))
