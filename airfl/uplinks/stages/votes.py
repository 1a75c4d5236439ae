"""Votes for a majority: signs of the update, with absentees and weights (Sahin, Everette and Hoque 2021; Sahin 2022,
"Distributed learning over a wireless network with non-coherent majority vote computation")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Votes:
    """Vote v = w(|x|) sign(x), with +1 for the sign of 0, and the decision step sign(mean of the votes).

    The weight is 0 for |x| < t, otherwise min(|x|/u, 1), or 1 for u = 0.

    Attributes:
        dimension: d, entries of an update.
        step: Magnitude of every entry of the decoded update.
        threshold: t; 0 for no absentees.
        full: u, magnitude from which a vote has its full weight; 0 for equal weights.
    """

    dimension: int
    step: float
    threshold: float = 0.0
    full: float = 0.0

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the norm sqrt(d) of a message in which everything votes with its full weight."""
        norm = math.sqrt(self.dimension)
        return replace(before, peak=norm, rms=norm, sensitivity=norm, noise_std=0.0, value_bits=1, values=-1)

    def open(self, opened: Round) -> Coder:
        """Return the coder, the same in every round. noise_gain is nan, since a decision is not linear in the noise."""
        return Coder(self._encode, self._decode, noise_gain=math.nan)

    def _encode(self, batch: Batch) -> Batch:
        import torch

        votes = torch.ge(batch.values, 0, out=torch.empty_like(batch.values)).mul_(2).sub_(1)
        if self.threshold or self.full:
            sizes = batch.messages.abs()
            if self.full:
                votes *= (sizes / self.full).clamp_(max=1.0)
            if self.threshold:
                votes *= sizes >= self.threshold
        return replace(batch, values=votes, scale=batch.scale.new_ones(len(votes)), known_norms=None)

    def _decode(self, mean: Tensor) -> Tensor:
        return self.step * mean.sign()
