"""Construction of the parts of a digital link from names and parameters, as in the section [digital]."""

from typing import Any

from channels.digital import ALLOCATIONS, ERROR_MODELS
from channels.part import parameters_of

KEYS = ("allocation", "error_model", "gap_db", "target_error", "block_elements", "transmissions", "mcs_table")


def digital_parts(allocation: str = "equal", error_model: str = "capacity", **values: Any) -> dict[str, Any]:
    """Return both parts, each built with those of the parameters that it has."""
    found = {"allocation": ALLOCATIONS[allocation], "error_model": ERROR_MODELS[error_model]}
    return {
        slot: part(**{one.name: values[one.name] for one in parameters_of(part) if one.name in values})
        for slot, part in found.items()
    }
