"""Error feedback around the compressing stages of a scheme that has it."""

from __future__ import annotations

from airfl.stages import ErrorFeedback, Stage
from channels.part import PartError


def with_feedback(wanted: bool, stages: tuple[Stage, ...], dimension: int) -> tuple[Stage, ...]:
    """The stages as they are, or with a memory of what they leave out."""
    return (ErrorFeedback(stages, dimension),) if wanted else stages


def check_feedback(wanted: bool, rescale: bool) -> None:
    """PartError for stages that multiply."""
    if wanted and rescale:
        raise PartError(
            "what is not sent is sent later, so that dividing by p would count it twice and more; take "
            "scheme.rescale = false (given: true)",
            "error_feedback",
        )
