"""What every section of the settings is made of."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from airfl.config.json_numbers import from_plain
from channels.part_text import BOUNDS

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

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """The docstring has a line for each setting, made from its declaration."""
        lines = [_line(key, field) for key, field in cls.model_fields.items() if field.description]
        if lines:
            cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), "", "Attributes:", *lines])

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON schema describes each setting by itself, the section in its first sentences alone."""
        found = handler(schema)
        handler.resolve_ref_schema(found)["description"] = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
        return found

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """What is not at its default."""
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            if field.is_required() or value != field.get_default(call_default_factory=True):
                yield key, value

    def __str__(self) -> str:
        return repr(self)


def _line(key: str, field: FieldInfo) -> str:
    bounds = [
        f"{words} {getattr(one, key):g}" for one in field.metadata for key, words in BOUNDS.items() if hasattr(one, key)
    ]
    told = [str(field.description), *([" and ".join(bounds)] if bounds else [])]
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if default is not None or "default" not in told[0]:  # of some the description says what none stands for
        told.append("required" if field.is_required() else f"default {default!r}")
    return f"    {key}: {'; '.join(told)}."
