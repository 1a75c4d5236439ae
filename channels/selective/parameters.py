"""Parameters that several selective models have."""

from __future__ import annotations

from typing import Any, Literal

from channels.part import LEAST_SCALE, MOST_SCALE, parameter

Tr38901Version = Literal["v16.1", "v19.2"]
"""Of 3GPP TR 38.901, whose parameter tables a model through Sionna takes."""


def delay_spread() -> Any:
    """The rms delay spread in s."""
    return parameter(
        1e-7,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="delay_spread_s",
        description="rms, of selective models (umi, uma, rma bring their own)",
    )


def tables() -> Any:
    """The version of the tables, a `Tr38901Version`."""
    return parameter(
        "v19.2",
        key="tr38901_version",
        description="version of 3GPP TR 38.901 whose tables tdl, cdl, umi, uma and rma use, by Sionna",
    )
