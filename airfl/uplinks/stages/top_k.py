"""top-k sparsification by the largest coordinates of each device's update, or of the server's update on public data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round

if TYPE_CHECKING:
    from torch import Tensor


# Up to this many factors the number of subsets is exact. Beyond, an error of a bit is negligible.
EXACT_UP_TO = 2000


@dataclass(frozen=True)
class PerDeviceTopK:
    """Keep each device's k coordinates of largest magnitude (Fed-SMP eq. 6). Their indices are sent, too, and reveal
    information about its data.

    Of equal magnitudes the lower coordinate is kept. The message has length d and is zero elsewhere.

    Attributes:
        dimension: d, entries of an update.
        kept: k, coordinates that are sent.
    """

    dimension: int
    kept: int

    def bound(self, before: MessageBound) -> MessageBound:
        """Keep all bounds, since a vector may have at most k nonzero entries, and add the bits of the indices."""
        return replace(before, values=self.kept, side_bits=before.side_bits + subset_bits(self.dimension, self.kept))

    def open(self, opened: Round) -> Coder:
        """Return the coder, which is the same in every round."""
        return Coder(self._encode, decode=lambda mean: mean)

    def _encode(self, batch: Batch) -> Batch:
        if self.kept == self.dimension:
            return batch
        kept = largest(batch.values.abs(), self.kept)
        sparse = batch.values.new_zeros(batch.values.shape).scatter_(1, kept, batch.values.gather(1, kept))
        return replace(batch, values=sparse, known_norms=None)


@dataclass(frozen=True)
class PublicTopK:
    """Keep the k coordinates of largest magnitude in the server's update on public data (Fed-SMP algorithm 2, lines 24
    to 33).

    They are the same for all devices and independent of private data. The server sends their indices on the downlink,
    if that is charged.

    Attributes:
        dimension: d, entries of an update.
        kept: k, coordinates that are sent.
        noise_adds_up: Whether it is the same linear map for all devices, see `Stage`.
    """

    dimension: int
    kept: int
    noise_adds_up: ClassVar[bool] = True

    def bound(self, before: MessageBound) -> MessageBound:
        """Keep all bounds, also on the mean square, since the mask follows the common direction of the updates."""
        return replace(before, entries=self.kept, mask_bits=subset_bits(self.dimension, self.kept))

    def open(self, opened: Round) -> Coder:
        """Select the coordinates by training on public data from theta^t."""
        kept = largest(opened.public_update().abs().unsqueeze(0), self.kept)[0]
        coordinates = kept.cpu().numpy().astype(np.int64)

        def encode(batch: Batch) -> Batch:
            return batch.restricted(kept, coordinates)

        def decode(mean: Tensor) -> Tensor:
            return mean.new_zeros(self.dimension).index_copy_(0, kept, mean)

        def expand(messages: Tensor) -> Tensor:
            return messages.new_zeros(len(messages), self.dimension).index_copy_(1, kept, messages)

        return Coder(encode, decode, coordinates=coordinates, expand=expand, elementwise=True)


def largest(magnitudes: Tensor, kept: int) -> Tensor:
    """Return the indices of the k largest entries of each row, ascending, [rows, d] -> [rows, k]. Of equal entries the
    first are taken."""
    import torch

    if magnitudes.is_cuda:
        return largest_on_device(magnitudes, kept)
    values = magnitudes.numpy()
    rows, entries = values.shape
    least = np.partition(values, entries - kept, axis=1)[:, entries - kept, None]
    selected = values >= least
    surplus = np.count_nonzero(selected, axis=1) - kept
    for row in np.flatnonzero(surplus):
        selected[row, np.flatnonzero(values[row] == least[row])[-surplus[row] :]] = False
    indices = np.flatnonzero(selected).reshape(rows, kept) - np.arange(0, rows * entries, entries)[:, None]
    return torch.from_numpy(indices)


def largest_on_device(magnitudes: Tensor, kept: int) -> Tensor:
    """Return the same as `largest`, computed by torch on the tensor's device. On a CPU numpy is several times as
    fast."""
    least = magnitudes.topk(kept, dim=1, sorted=False).values.amin(dim=1, keepdim=True)
    selected = magnitudes >= least
    if int(selected.sum()) > kept * len(magnitudes):
        above, tied = magnitudes > least, magnitudes == least
        selected = above | (tied & (tied.cumsum(dim=1) <= kept - above.sum(dim=1, keepdim=True)))
    return selected.nonzero()[:, 1].view(len(magnitudes), kept)


def subset_bits(dimension: int, kept: int) -> int:
    """Return ceil(log2 C(d, k)), the bits that identify k of d coordinates."""
    if min(kept, dimension - kept) <= EXACT_UP_TO:
        return (math.comb(dimension, kept) - 1).bit_length()
    logs = math.lgamma(dimension + 1) - math.lgamma(kept + 1) - math.lgamma(dimension - kept + 1)
    return math.ceil(logs / math.log(2))
