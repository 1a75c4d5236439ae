"""Types of settings that are names in a table: the table alone says what is allowed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from airfl.errors import nearest
from airfl.selection import SELECTIONS
from airfl.tasks.datasets import DATASETS
from airfl.tasks.models import MODELS
from airfl.tasks.partition import PARTITIONS
from airfl.tasks.table import OWN
from channels.antennas import ARRAYS, COMBINERS, CORRELATIONS
from channels.fading.variation import VARIATIONS
from channels.topology import PATH_LOSS, PLACEMENTS


def _in_table(what: str, table: Collection[str]) -> tuple[Any, Any]:
    def check(name: str) -> str:
        if name not in table:
            allowed = ", ".join(sorted(table))
            raise ValueError(f"there is no {what} {name!r}{nearest(name, table)} (allowed: {allowed})")
        return name

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": sorted(table)})


DatasetName = Annotated[str, *_in_table("dataset", [*DATASETS, OWN])]
ModelName = Annotated[str, *_in_table("model", [*MODELS, OWN])]
PartitionName = Annotated[str, *_in_table("partition", [*PARTITIONS, OWN])]
SelectionName = Annotated[str, *_in_table("selection", SELECTIONS)]
VariationName = Annotated[str, *_in_table("variation", VARIATIONS)]
PlacementName = Annotated[str, *_in_table("topology", ["none", *PLACEMENTS])]
PathLossName = Annotated[str, *_in_table("path loss", PATH_LOSS)]
ArrayName = Annotated[str, *_in_table("array", ARRAYS)]
CorrelationName = Annotated[str, *_in_table("spatial correlation", CORRELATIONS)]
CombinerName = Annotated[str, *_in_table("combiner", COMBINERS)]
