"""Clamping of every entry to a range."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from airfl.uplinks.stages.stage import Coder, MessageBound, Round


@dataclass(frozen=True)
class Clamp:
    """x -> min(max(x, -v), v) for every entry.

    Attributes:
        limit: v, the largest magnitude of an entry.
        lipschitz: 1, as clamping moves two messages no further apart.
    """

    limit: float
    lipschitz: ClassVar[float] = 1.0

    def bound(self, before: MessageBound) -> MessageBound:
        """Lower every bound to v sqrt(m)."""
        norm = self.limit * math.sqrt(before.entries)
        return replace(
            before,
            peak=min(before.peak, norm),
            rms=min(before.rms, norm),
            sensitivity=min(before.sensitivity, 2 * norm),
            attained=before.attained and before.peak <= self.limit,  # else entries are clamped, at less than this bound
        )

    def open(self, opened: Round) -> Coder:
        """Return the coder, the same in every round."""
        return Coder(
            encode=lambda batch: batch.of(batch.messages.clamp_(-self.limit, self.limit)), decode=lambda mean: mean
        )
