"""Clipping to an l2 norm: a message longer than the limit is scaled down to it, a shorter one is unchanged.

Schemes clip by it what devices send, and a round by it what the sum is compared with (`airfl.core.state.World.clip`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Clip:
    """Delta -> Delta min(1, limit/||Delta||) (PFELS algorithm 1, line 11).

    Attributes:
        limit: C, the largest l2 norm of an update.
        lipschitz: 1, as clipping moves two messages no further apart.
        keeps_messages: Whether it leaves messages within its bound as they are, see `Stage`.
    """

    limit: float
    lipschitz: ClassVar[float] = 1.0
    keeps_messages: ClassVar[bool] = True

    def bound(self, before: MessageBound) -> MessageBound:
        """Lower every bound to the limit."""
        return replace(
            before,
            peak=min(before.peak, self.limit),
            rms=min(before.rms, self.limit),
            sensitivity=min(before.sensitivity, self.limit),
        )

    def open(self, opened: Round) -> Coder:
        """Return the coder, which is the same in every round."""
        return Coder(encode=self.encode, decode=lambda mean: mean, elementwise=True, needs_norms=True)

    def encode(self, batch: Batch) -> Batch:
        """Return the batch with every message clipped, by its scale."""
        norms = batch.norms
        return replace(batch, known_norms=norms).scaled(clip_factor(norms * batch.scale, self.limit))

    def clip_non_finite(self, update: Tensor) -> Tensor:
        """Return the limit of clipping an update [d] as its infinite entries grow together without bound: only their
        signs remain. nan counts as 0. Without infinite entries the norm is computed in double precision."""
        infinite = update.isinf()
        if infinite.any():
            signs = infinite * update.nan_to_num(nan=0.0).sign()
            return signs * (self.limit / float(signs.double().norm()))
        finite = update.nan_to_num(nan=0.0)
        norm = float(finite.double().norm())
        return finite * min(1.0, self.limit / norm) if norm else finite


def clip_factor(norms: Tensor, limit: float) -> Tensor:
    """Return min(1, limit/norm) elementwise; 1 for a zero vector."""
    return (limit / norms).clamp(max=1.0)
