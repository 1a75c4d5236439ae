"""Parameters shared by several policies."""

from __future__ import annotations

from typing import Any

from channels.part import LEAST_SCALE, MOST_SCALE, parameter


def least_power() -> Any:
    """Declare `threshold`, a bound on |g|^2 relative to its mean."""
    return parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="threshold",
        description="|h|^2 relative to its mean below which a truncating policy (or cotaf) does not send",
    )


def target_beta() -> Any:
    """Declare `coefficient`, the target beta."""
    return parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="coefficient",
        description="target beta of inversion; a device that cannot reach it is silent; default what all can reach",
    )
