"""Check at run time that messages of recipes with user-defined stages keep the stated bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airfl.errors import UserError, comes_with_airfl
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Stage

ROUNDING = 1e-4
"""Relative tolerance for a norm computed in single precision."""


def held_to_bound(coder: Coder, stages: Sequence[Stage], bound: MessageBound) -> Coder:
    """Wrap the coder of a round so that every message is checked against the bound stated before training, if any stage
    is user-defined. Power control and the privacy ledger rely on that bound.

    Args:
        coder: The coder of all stages.
        stages: The stages of the recipe.
        bound: The bound on the message after the last stage.

    The coder raises UserError if a message does not have the stated length or exceeds the stated peak norm. The mean
    square norm and the sensitivity cannot be checked in a single run; `airfl check` tests them.
    """
    user_defined = [stage for stage in stages if not comes_with_airfl(stage)]
    if not user_defined:
        return coder
    name = ", ".join(type(stage).__name__ for stage in user_defined)

    def encode(batch: Batch) -> Batch:
        message = coder.encode(batch)
        if message.values.shape[1] != bound.entries:
            raise UserError(
                f"stage {name}: a message has {message.values.shape[1]:,} entries, but bound() states "
                f"{bound.entries:,}; correct `entries` in bound(), or encode()"
            )
        norms = message.norms * message.scale.abs()
        longest = float(norms.max()) if len(norms) else 0.0
        if longest > bound.peak * (1 + ROUNDING):
            raise UserError(
                f"stage {name}: a message has norm {longest:.6g}, but bound() states a peak of {bound.peak:.6g}, on "
                "which power and privacy rely; correct bound() or encode()"
            )
        return message

    # The norm of a message cannot be checked from slabs.
    return replace(coder, encode=encode, elementwise=False)
