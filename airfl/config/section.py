"""The base class and the types of all sections of the settings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from airfl.config.json_numbers import from_plain
from airfl.config.problems import first_line
from airfl.errors import UserError
from channels.part_text import BOUNDS

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

LEAST_SCALE, MOST_SCALE = 1e-20, 1e20
"""Range of magnitudes that single precision represents safely."""


def _in_single_precision(value: float) -> float:
    if not LEAST_SCALE <= value <= MOST_SCALE:
        raise ValueError(f"must be between 1e-20 and 1e20, got {value:g}")
    return value


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Scale = Annotated[Positive, AfterValidator(_in_single_precision)]
ScaleOrZero = Annotated[NotNegative, AfterValidator(lambda value: value and _in_single_precision(value))]
ScaleOrInfinite = Annotated[
    float,
    Field(gt=0),
    BeforeValidator(from_plain),
    AfterValidator(lambda value: value if math.isinf(value) else _in_single_precision(value)),
]
Decibels = Annotated[float, Field(ge=-200, le=200, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Schedule = Literal["constant", "inverse-sqrt", "exponential"]


PUBLIC_NAMES = {"LocalSettings": "LocalSgd", "TaskSettings": "NamedTask", "AntennaSettings": "Antennas"}
"""Class name of a section -> its public name, where removing the suffix does not give it: `airfl.LocalSgd`."""


def public_name(section: type) -> str:
    """Return the public name of a section: GridSettings is `airfl.Grid`."""
    name = section.__name__
    return PUBLIC_NAMES.get(name, name.removesuffix("Settings") or name)


class _UserErrors(ModelMetaclass):
    """Metaclass of sections: calling the class with invalid arguments raises a UserError of one line."""

    def __call__(cls, *args: Any, **named: Any) -> Any:  # noqa: N805  the instance of a metaclass is a class
        if args:
            fields = cls.model_fields  # type: ignore[attr-defined]
            raise UserError(f"{public_name(cls)}: takes keyword arguments only, such as {next(iter(fields))}=...")
        try:
            return super().__call__(**named)
        except ValidationError as error:
            raise UserError(f"{public_name(cls)}: {first_line(error, cls)}") from None  # type: ignore[arg-type]


class Section(BaseModel, metaclass=_UserErrors):
    """Base class of the tables of a settings file. It rejects unknown keys and type conversions, except that numbers of
    numpy become those of Python, and is immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _with_numbers_of_python(cls, values: Any) -> Any:
        return {key: _number_of_python(value) for key, value in values.items()} if isinstance(values, dict) else values

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Append a line for each setting to the docstring, generated from its declaration."""
        lines = attribute_lines(cls, cls.model_fields)
        if lines:
            cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), "", "Attributes:", *lines])

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema, with the first paragraph of the docstring as description of the section."""
        json_schema = handler(schema)
        summary = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
        handler.resolve_ref_schema(json_schema)["description"] = summary
        return json_schema

    def __repr_name__(self) -> str:
        return public_name(type(self))

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield the keys that differ from their defaults, with their values."""
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            if field.is_required() or value != field.get_default(call_default_factory=True):
                yield key, value

    def __str__(self) -> str:
        return repr(self)


def _number_of_python(value: Any) -> Any:
    """Return a number of numpy, or a list or tuple with such, as numbers of Python; any other value unchanged."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(_number_of_python, value))
    return value


def attribute_lines(section: type[BaseModel], keys: Iterable[str]) -> list[str]:
    """Return one docstring line for each of these keys that has a description."""
    return [_line(key, field) for key in keys if (field := section.model_fields[key]).description]


def _line(key: str, field: FieldInfo) -> str:
    bounds = [
        f"{words} {getattr(one, key):g}" for one in field.metadata for key, words in BOUNDS.items() if hasattr(one, key)
    ]
    facts = [str(field.description), *([" and ".join(bounds)] if bounds else [])]
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if default is not None or "default" not in facts[0]:  # the description may say what the default None means
        facts.append("required" if field.is_required() else f"default {default!r}")
    return f"    {key}: {'; '.join(facts)}."
