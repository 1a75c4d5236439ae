"""Whether messages are what stages state: asked of every message of a recipe with a stage of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airfl.errors import UserError
from airfl.stages.stage import Batch, Coder, MessageBound, Stage

ROUNDING = 1e-4
"""Of a norm in single precision."""


def held_to_bound(coder: Coder, stages: Sequence[Stage], bound: MessageBound) -> Coder:
    """The coder of a round, whose messages are compared with the bound that was stated before training, where one of
    the stages is the user's own; power control and the ledger rest on that bound.

    Args:
        coder: Of all stages.
        stages: Of the recipe.
        bound: On the message that leaves the last of them.

    Raises UserError, when a message is encoded, for one of another length than stated, one that is not finite, and one
    that is longer than its peak. How long messages are on average, and how far one device's data moves them, a single
    run does not show: `airfl check` tries that.
    """
    own = [stage for stage in stages if not _comes_with_airfl(stage)]
    if not own:
        return coder
    name = ", ".join(type(stage).__name__ for stage in own)

    def encode(batch: Batch) -> Batch:
        message = coder.encode(batch)
        if message.values.shape[1] != bound.entries:
            raise UserError(
                f"stage {name}: a message has {message.values.shape[1]:,} entries, and the stages state "
                f"{bound.entries:,}; mend `entries` of its bound, or what it encodes"
            )
        norms = message.values.norm(dim=1) * message.scale.abs()
        if not norms.isfinite().all():
            raise UserError(f"stage {name}: a message is not finite, of an update that is; mend what it encodes")
        longest = float(norms.max()) if len(norms) else 0.0
        if longest > bound.peak * (1 + ROUNDING):
            raise UserError(
                f"stage {name}: a message has the norm {longest:.6g}, and the stages state a peak of {bound.peak:.6g}, "
                "on which power and privacy rest; mend its bound, or what it encodes"
            )
        return message

    # A slab of a message would not show its norm.
    return replace(coder, encode=encode, by_entry=False)


def _comes_with_airfl(stage: Stage) -> bool:
    return type(stage).__module__.partition(".")[0] == __name__.partition(".")[0]
