"""Settings that are parts: given as an object, a name, or a table of a name and its own parameters."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from airfl.config.json_numbers import from_plain
from channels.part import REQUIRED, Parameter, Part, PartError, Registry, kinds_of, parameters_of

P = TypeVar("P", bound=Part)
KINDS = {float: "number", int: "integer", bool: "boolean", str: "string", type(None): "null"}


@dataclass(frozen=True)
class PartOf(Generic[P]):
    """Annotation of a section that is a part of a registry.

    Attributes:
        registry: Where names are looked up.
        section: What it is called in settings files, for messages.
        default: The name where none is given.
        about: One line for the reference.
    """

    registry: Registry[P]
    section: str
    default: str
    about: str = ""

    def build(self, given: object) -> P:
        """The part; ValueError, with the dotted key, for what is none."""
        if isinstance(given, Mapping):
            given = {key: from_plain(value) for key, value in given.items()}
        try:
            return self.registry.build(given, self.default)  # type: ignore[arg-type]
        except PartError as error:
            raise ValueError(told(error, self.section)) from None

    def table(self, part: P, *, changed: bool = False) -> dict[str, Any]:
        """Name and parameters as a file has them; changed: only what is not at its default."""
        values = part.changed() if changed else part.values()
        if changed and part.name == self.default:
            return values
        return {"name": part.name, **values}

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        def plain(part: P, info: core_schema.SerializationInfo) -> dict[str, Any]:
            return self.table(part, changed=info.exclude_defaults)

        return core_schema.no_info_plain_validator_function(
            self.build, serialization=core_schema.plain_serializer_function_ser_schema(plain, info_arg=True)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return schema_of(self)


def told(error: PartError, section: str) -> str:
    """The message of a part's error with the dotted key in it."""
    message, key = str(error), error.key
    if key is None:
        return f"{section}: {message}"
    return f"{section}.{message}" if message.startswith(f"{key} ") else f"{section}.{key}: {message}"


def schema_of(slot: PartOf[Any], parts: Mapping[str, type[Part]] | None = None) -> dict[str, Any]:
    """JSON schema of a part: all keys, each with the parts that have it, and for each name the keys that it has.

    Args:
        slot: Where the part stands.
        parts: By name, those that may stand there; None for all of the registry.
    """
    parts = slot.registry if parts is None else parts
    named = {name: {one.name: one for one in parameters_of(part)} for name, part in parts.items()}
    holders: dict[str, list[str]] = {}
    for name, known in named.items():
        for key in known:
            holders.setdefault(key, []).append(name)
    properties: dict[str, Any] = {
        "name": {
            "type": "string",
            "enum": sorted(named),
            "default": slot.default,
            "description": f"which {slot.registry.kind}",
        }
    }
    for key, having in holders.items():
        of_all = len(having) == len(named)
        properties[key] = property_of(named[having[0]][key], "" if of_all else f" ({', '.join(having)})")
    is_default = {"not": {"required": ["name"]}}
    return {
        "type": "object",
        "title": slot.registry.base.__name__,
        "description": slot.about,
        "properties": properties,
        "additionalProperties": False,
        "allOf": [
            {
                "if": {
                    "anyOf": [
                        {"properties": {"name": {"const": name}}, "required": ["name"]},
                        *([is_default] if name == slot.default else []),
                    ]
                },
                "then": {"propertyNames": {"enum": ["name", *known]}},
            }
            for name, known in named.items()
        ],
    }


def section_of(schema: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The JSON schema of a section, whether it stands there or is referred to."""
    entry: dict[str, Any] = schema["properties"][section]
    found: dict[str, Any] = schema["$defs"][entry["$ref"].rpartition("/")[2]] if "$ref" in entry else entry
    return found


def property_of(one: Parameter, of_whom: str = "") -> dict[str, Any]:
    """JSON schema of a parameter; of_whom: put behind its description."""
    found = [_kind(one, kind) for kind in kinds_of(one.hint)]
    schema = found[0] if len(found) == 1 else {"anyOf": found}
    unit = f" [{one.unit}]" if one.unit else ""
    default = {} if one.default is REQUIRED else {"default": one.default}
    return {**schema, **default, "description": f"{one.description}{unit}{of_whom}"}


def _kind(one: Parameter, kind: Any) -> dict[str, Any]:
    if typing.get_origin(kind) is Literal:
        named = typing.get_args(kind)
        return {"type": KINDS[type(named[0])], "enum": list(named)}
    if typing.get_origin(kind) is tuple:
        return {"type": "array", "items": _kind(one, typing.get_args(kind)[0])}
    schema: dict[str, Any] = {"type": KINDS[kind]} if kind in KINDS else {}
    if kind not in (float, int):
        return schema
    lowest = min((value for value in one.also if one.ge is None or value < one.ge), default=one.ge)
    if one.gt is not None and 0.0 not in one.also:
        schema["exclusiveMinimum"] = one.gt
    elif lowest is not None:
        schema["minimum"] = lowest
    if math.inf not in one.also:
        bounds = {"exclusiveMaximum": one.lt, "maximum": one.le}
        schema |= {word: bound for word, bound in bounds.items() if bound is not None}
    return schema
