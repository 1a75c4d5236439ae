"""Age-aware top-k: of the coordinates with the largest last received values, those that have waited longest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round
from airfl.uplinks.stages.top_k import largest, subset_bits

if TYPE_CHECKING:
    from torch import Tensor

RECEIVED, SENT = "age_top_k_received", "age_top_k_sent"
"""Names in `Store.server`: the last received value of each coordinate, [d], and 1 + the round in which it was, 0 for
never, [d]."""


@dataclass(frozen=True)
class AgeAwareTopK:
    """The mask of AgeTop-k: the same k of d coordinates for all devices, which the server chooses from what it has
    received so far.

    Of all coordinates, the `candidates` whose last received value has the largest magnitude are taken, and of these the
    k whose age, the number of rounds since they were last sent, is the largest. A coordinate that was never sent counts
    as the largest and the oldest. Of equal ages the larger magnitude is taken, of equal magnitudes the lower
    coordinate. k candidates are top-k by the last received values; d candidates are round robin.

    The choice follows from aggregates of earlier rounds alone, which were released then. The server sends the indices
    on the downlink, if that is charged, since a device that has not taken part in all rounds does not know them.

    Attributes:
        dimension: d, entries of an update.
        kept: k, coordinates that are sent.
        candidates: Number of coordinates among which ages decide, from k to d.
        noise_adds_up: Whether it is the same linear map for all devices, see `Stage`.
    """

    dimension: int
    kept: int
    candidates: int
    noise_adds_up: ClassVar[bool] = True

    def bound(self, before: MessageBound) -> MessageBound:
        """Keep all bounds, also on the mean square, since the mask follows the magnitudes of earlier updates."""
        return replace(before, entries=self.kept, mask_bits=subset_bits(self.dimension, self.kept))

    def open(self, opened: Round) -> Coder:
        """Choose the coordinates of this round; `decode` enters what was received into the store."""
        import torch

        server = opened.store.server
        received = server.get(RECEIVED, torch.zeros(self.dimension, device=opened.device))
        sent = server.get(SENT, torch.zeros(self.dimension, device=opened.device))
        kept = self.choose(received, sent, opened.index)
        coordinates = kept.cpu().numpy().astype(np.int64)

        def encode(batch: Batch) -> Batch:
            return batch.restricted(kept, coordinates)

        def decode(mean: Tensor) -> Tensor:
            whole = mean.new_zeros(self.dimension).index_copy_(0, kept, mean)
            # New tensors, since a checkpoint may still be writing those of the round before.
            server[RECEIVED] = received.index_copy(0, kept, mean.to(received))
            server[SENT] = sent.index_fill(0, kept, opened.index + 1)
            return whole

        def expand(messages: Tensor) -> Tensor:
            return messages.new_zeros(len(messages), self.dimension).index_copy_(1, kept, messages)

        return Coder(encode, decode, coordinates=coordinates, expand=expand, elementwise=True)

    def choose(self, received: Tensor, sent: Tensor, round_index: int) -> Tensor:
        """Return the coordinates of a round, ascending, [k].

        Args:
            received: Last received value of each coordinate, [d].
            sent: 1 + the round in which it was last sent, 0 for never, [d].
            round_index: t, from 0.
        """
        import torch

        magnitudes = received.abs().nan_to_num(nan=0.0).masked_fill(sent == 0, math.inf)
        among = largest(magnitudes.unsqueeze(0), self.candidates)[0]
        ages = round_index + 1 - sent[among]
        least = ages.topk(self.kept).values.min()  # the age of the youngest that is taken
        older, tied = among[ages > least], among[ages == least]
        # At least one of the k has the least age, so that `tied` is never empty.
        taken = tied[largest(magnitudes[tied].unsqueeze(0), self.kept - len(older))[0]]
        return torch.cat((older, taken)).sort().values
