"""Error feedback around the compressing stages of a scheme, where scheme.error_feedback asks for it."""

from __future__ import annotations

from airfl.config.settings import Settings
from airfl.errors import UserError
from airfl.stages import ErrorFeedback, Stage


def with_feedback(settings: Settings, stages: tuple[Stage, ...], dimension: int) -> tuple[Stage, ...]:
    """The stages as they are, or with a memory of what they leave out. UserError for stages that multiply."""
    if not settings.scheme.error_feedback:
        return stages
    if settings.scheme.rescale:
        raise UserError(
            "scheme.error_feedback: what is not sent is sent later, so that dividing by p would count it twice and "
            "more; take scheme.rescale = false (given: true)"
        )
    return (ErrorFeedback(stages, dimension),)
