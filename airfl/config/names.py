"""Types of settings whose allowed values are the names in a table of built-in implementations."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from airfl.errors import nearest, shown_value
from channels.antennas import ARRAYS, CORRELATIONS
from channels.fading.variation import VARIATIONS
from channels.topology import PATH_LOSS, PLACEMENTS


def _in_table(kind: str, table: Collection[str]) -> tuple[Any, Any]:
    def check(name: str) -> str:
        if name not in table:
            allowed = ", ".join(sorted(table))
            raise ValueError(f"unknown {kind} {shown_value(name)}{nearest(name, table)} (allowed: {allowed})")
        return name

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": sorted(table)})


VariationName = Annotated[str, *_in_table("variation", VARIATIONS)]
PlacementName = Annotated[str, *_in_table("topology kind", ["none", *PLACEMENTS])]
PathLossName = Annotated[str, *_in_table("path loss", PATH_LOSS)]
ArrayName = Annotated[str, *_in_table("array", ARRAYS)]
CorrelationName = Annotated[str, *_in_table("spatial correlation", CORRELATIONS)]
