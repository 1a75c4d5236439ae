"""Parameters shared by several frequency-selective models."""

from __future__ import annotations

from typing import Any, Literal

from channels.part import LEAST_SCALE, MOST_SCALE, parameter

Tr38901Version = Literal["v16.1", "v19.2"]
"""Version of 3GPP TR 38.901 whose parameter tables Sionna's models use."""


def delay_spread() -> Any:
    """Declare the rms delay spread in s."""
    return parameter(
        1e-7,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="delay_spread_s",
        description="rms delay spread of selective models (umi, uma, rma and inf-sl to inf-hh draw it)",
    )


def tables() -> Any:
    """Declare the version of the tables, a `Tr38901Version`."""
    return parameter(
        "v19.2",
        key="tr38901_version",
        description="version of 3GPP TR 38.901 whose tables Sionna uses for tdl, cdl, umi, uma, rma and inf-sl to "
        "inf-hh",
    )
