"""Parameters that several policies have."""

from __future__ import annotations

from typing import Any

from channels.part import LEAST_SCALE, MOST_SCALE, parameter


def least_power() -> Any:
    """`threshold`, of |g|^2 over its mean."""
    return parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="threshold",
        description="|h|^2 over its mean below which a truncating policy (and cotaf) does not send",
    )


def target_beta() -> Any:
    """`coefficient`, the beta aimed at."""
    return parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="coefficient",
        description="beta that inversion aims at; who cannot reach it is silent. Default: what all can reach",
    )
