"""What every section of the settings is made of."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from airfl.config.json_numbers import from_plain

LEAST_SCALE, MOST_SCALE = 1e-20, 1e20
"""What single precision carries on."""


def _carried_by_single_precision(value: float) -> float:
    if not LEAST_SCALE <= value <= MOST_SCALE:
        raise ValueError(f"a number between 1e-20 and 1e20 is wanted, not {value:g}")
    return value


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Scale = Annotated[Positive, AfterValidator(_carried_by_single_precision)]
ScaleOrZero = Annotated[NotNegative, AfterValidator(lambda value: value and _carried_by_single_precision(value))]
ScaleOrInfinite = Annotated[
    float,
    Field(gt=0),
    BeforeValidator(from_plain),
    AfterValidator(lambda value: value if math.isinf(value) else _carried_by_single_precision(value)),
]
Decibels = Annotated[float, Field(ge=-200, le=200, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Schedule = Literal["constant", "inverse-sqrt", "exponential"]


class Section(BaseModel):
    """A table of the settings file: no unknown keys, no conversions, no changes afterwards."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
