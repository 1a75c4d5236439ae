"""One bit per entry: signs of the update, and the majority vote over the superposed signs (Zhu, Du, Gündüz and Huang
2021, "One-bit over-the-air aggregation for communication-efficient federated edge learning")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SignMajority:
    """Sign compression with majority vote. It encodes Delta as sign(Delta), with +1 for an entry of 0, and decodes the
    received mean as step sign(mean), with 0 where the mean is 0.

    The decision is made on the noisy sum.

    Attributes:
        dimension: d, entries of an update.
        step: Magnitude of every entry of the decoded update.
    """

    dimension: int
    step: float

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the norm sqrt(d) of any message, which is also its sensitivity. Noise of earlier stages is absorbed by
        the signs and no longer Gaussian."""
        norm = math.sqrt(self.dimension)
        return replace(before, peak=norm, rms=norm, sensitivity=norm, noise_std=0.0, value_bits=1, values=-1)

    def open(self, opened: Round) -> Coder:
        """Return the coder, the same in every round. noise_gain is nan, since a decision is not linear in the noise."""
        return Coder(self._encode, self._decode, noise_gain=math.nan)

    def _encode(self, batch: Batch) -> Batch:
        # Signs are taken from the values, since scales are not negative and a tiny scale could round an entry to 0.
        signs = (batch.values >= 0).to(batch.values.dtype).mul_(2).sub_(1)
        ones = batch.scale.new_ones(len(signs))
        return replace(batch, values=signs, scale=ones, known_norms=ones * math.sqrt(signs.shape[1]))

    def _decode(self, mean: Tensor) -> Tensor:
        return self.step * mean.sign()
