"""JSON with non-finite numbers, which are written and read as the strings "inf", "-inf" and "nan"."""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Serialise plain data as JSON, with non-finite numbers as strings."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def from_plain(value: Any) -> Any:
    """Convert a value that `to_json` has written: the strings "inf", "-inf" and "nan" become numbers again."""
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value


MaybeInfinite = Annotated[float, BeforeValidator(from_plain)]
"""A float that may be written as the string "inf"."""
