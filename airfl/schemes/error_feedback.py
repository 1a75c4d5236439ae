"""Error feedback around the compression stages of a scheme."""

from __future__ import annotations

from airfl.uplinks.stages import ErrorFeedback, Stage
from channels.part import PartError


def with_feedback(enabled: bool, stages: tuple[Stage, ...], dimension: int) -> tuple[Stage, ...]:
    """Wrap the stages in error feedback if it is enabled."""
    return (ErrorFeedback(stages, dimension),) if enabled else stages


def check_feedback(enabled: bool, rescale: bool) -> None:
    """Check that error feedback is not combined with rescaling; raises PartError otherwise."""
    if enabled and rescale:
        raise PartError(
            "cannot be combined with scheme.rescale = true, because the residual is sent later and would be counted "
            "more than once; set scheme.rescale = false",
            "error_feedback",
        )
