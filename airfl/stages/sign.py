"""One bit an entry: signs of the update, and the majority of what the channel adds up (Zhu, Du, Gündüz and Huang 2021,
"One-bit over-the-air aggregation for communication-efficient federated edge learning")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airfl.stages.stage import Batch, Coder, MessageBound, Round

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SignMajority:
    """Delta -> sign(Delta), +1 for an entry of 0; the received mean -> step sign(mean), 0 where it is 0.

    The decision is taken on the noisy sum.

    Attributes:
        dimension: d, entries of an update.
        step: Modulus of every entry of the update that is decoded.
    """

    dimension: int
    step: float

    def bound(self, before: MessageBound) -> MessageBound:
        """Any message has the norm sqrt(d) and is one device's whole share of the sum; noise put on before is in the
        signs and no longer Gaussian."""
        norm = math.sqrt(self.dimension)
        return replace(before, peak=norm, rms=norm, sensitivity=norm, noise_std=0.0, value_bits=1, values=-1)

    def open(self, opened: Round) -> Coder:
        """The same in every round. noise_gain is nan: a decision has errors, it does not multiply noise."""
        return Coder(self._encode, self._decode, noise_gain=math.nan)

    def _encode(self, batch: Batch) -> Batch:
        # Scales are not negative, and one that is very small must not round an entry to 0.
        signs = (batch.values >= 0).to(batch.values.dtype).mul_(2).sub_(1)
        ones = batch.scale.new_ones(len(signs))
        return replace(batch, values=signs, scale=ones, known_norms=ones * math.sqrt(signs.shape[1]))

    def _decode(self, mean: Tensor) -> Tensor:
        return self.step * mean.sign()
