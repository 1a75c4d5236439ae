"""Parameters that several schemes have, declared once."""

from __future__ import annotations

from typing import Any

from channels.part import LEAST_SCALE, MOST_SCALE, parameter


def ratio() -> Any:
    """p."""
    return parameter(
        1.0, gt=0, le=1, description="p, the share of coordinates that is kept; k = floor(p d), at least 1"
    )


def rescale() -> Any:
    """1/p."""
    return parameter(False, description="divide the decoded update by p, which makes rand-k unbiased")


def error_feedback() -> Any:
    """Memory of what was not sent."""
    return parameter(False, description="keep what was not sent and add it to the next update")


def noise_multiplier() -> Any:
    """Noise over sensitivity."""
    return parameter(
        None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        description="noise over the largest contribution of a device (client level) or of a record (record level), in "
        "what is released; default: what the paper's own theorem asks for at privacy.epsilon over the whole run",
    )


def coordinate_clip() -> Any:
    """c = G/sqrt(d) of Fed-SPA."""
    return parameter(
        None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(float("inf"),),
        description="G/sqrt(d), bound on a coordinate of a record's gradient, inf for none; default: the median over "
        "an initial round",
    )


def gamma() -> Any:
    """gamma of SoteriaFL."""
    return parameter(None, ge=0, description="shift step of SoteriaFL, at least 0; default that of its theorem 3")


def refresh() -> Any:
    """p of SVRG."""
    return parameter(None, gt=0, le=1, description="probability that SVRG moves its snapshot; default b/m")
