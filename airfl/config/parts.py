"""Settings that are parts, given as an object, a name, or a table of a name and parameters."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from airfl.config.json_numbers import from_plain
from airfl.errors import comes_with_airfl
from channels.part import REQUIRED, Parameter, Part, PartError, Registry, is_built_in, kinds_of, parameters_of

P = TypeVar("P", bound=Part)
KINDS = {float: "number", int: "integer", bool: "boolean", str: "string", type(None): "null"}


@dataclass(frozen=True)
class PartOf(Generic[P]):
    """Annotation of a section that holds a part of a registry.

    Attributes:
        registry: The registry in which names are looked up.
        section: The name of the section in settings files, for messages.
        default: The name of the part if none is given.
        about: A description of one line for the reference.
    """

    registry: Registry[P]
    section: str
    default: str
    about: str = ""

    def build(self, value: object) -> P:
        """Build the part. Raises ValueError, with the dotted key, if it cannot be built."""
        if isinstance(value, Mapping):
            value = {key: from_plain(parameter) for key, parameter in value.items()}
        try:
            part = self.registry.build(value, self.default)  # type: ignore[arg-type]
            check_name(part, self.registry)
            return part
        except PartError as error:
            raise ValueError(error_text(error, self.section)) from None

    def table(self, part: P, *, changed: bool = False) -> dict[str, Any]:
        """Return the name and parameters as in a file. With `changed`, only those that differ from their defaults."""
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


def check_name(part: Part, registry: Registry[Any]) -> None:
    """Raise PartError for a user-defined part with the name of one that comes with airfl, which tables would show."""
    if comes_with_airfl(part) or is_built_in(part):  # also the classes that `airfl check` derives from them
        return
    if part.name in registry.classes.values() and registry[part.name] is not type(part):
        raise PartError(
            f"{type(part).__name__} has the name {part.name!r} of a {registry.kind} that comes with airfl; set name to "
            "another one in the class"
        )


def error_text(error: PartError, section: str) -> str:
    """Return the message of a part's error with the dotted key in it."""
    message, key = str(error), error.key
    if key is None:
        return f"{section}: {message}"
    return f"{section}.{message}" if message.startswith(f"{key} ") else f"{section}.{key}: {message}"


def schema_of(slot: PartOf[Any], parts: Mapping[str, type[Part]] | None = None) -> dict[str, Any]:
    """Return the JSON schema of a part: all keys, each with the parts that have it, and the keys allowed for each name.

    Args:
        slot: The declaration of the section or key that holds the part.
        parts: Name -> class of the parts that it may hold; None for all of the registry.
    """
    parts = slot.registry if parts is None else parts
    parameters = {
        name: {parameter.name: parameter for parameter in parameters_of(part)} for name, part in parts.items()
    }
    holders: dict[str, list[str]] = {}
    for name, own in parameters.items():
        for key in own:
            holders.setdefault(key, []).append(name)
    properties: dict[str, Any] = {
        "name": {
            "type": "string",
            "enum": sorted(parameters),
            "default": slot.default,
            "description": f"name of the {slot.registry.kind}",
        }
    }
    for key, names in holders.items():
        in_all = len(names) == len(parameters)
        properties[key] = property_of(parameters[names[0]][key], "" if in_all else f" ({', '.join(names)})")
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
                "then": {"propertyNames": {"enum": ["name", *own]}},
            }
            for name, own in parameters.items()
        ],
    }


def section_of(schema: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Return the JSON schema of a section, with references resolved."""
    entry: dict[str, Any] = schema["properties"][section]
    resolved: dict[str, Any] = schema["$defs"][entry["$ref"].rpartition("/")[2]] if "$ref" in entry else entry
    return resolved


def property_of(parameter: Parameter, suffix: str = "") -> dict[str, Any]:
    """Return the JSON schema of a parameter, with `suffix` appended to its description."""
    types = [_type_schema(parameter, kind) for kind in kinds_of(parameter.hint)]
    schema = types[0] if len(types) == 1 else {"anyOf": types}
    unit = f" [{parameter.unit}]" if parameter.unit else ""
    default = {} if parameter.default is REQUIRED else {"default": parameter.default}
    return {**schema, **default, "description": f"{parameter.description}{unit}{suffix}"}


def _type_schema(parameter: Parameter, kind: Any) -> dict[str, Any]:
    if typing.get_origin(kind) is Literal:
        allowed = typing.get_args(kind)
        return {"type": KINDS[type(allowed[0])], "enum": list(allowed)}
    if typing.get_origin(kind) is tuple:
        return {"type": "array", "items": _type_schema(parameter, typing.get_args(kind)[0])}
    schema: dict[str, Any] = {"type": KINDS[kind]} if kind in KINDS else {}
    if kind not in (float, int):
        return schema
    lowest = min(
        (value for value in parameter.also if parameter.ge is None or value < parameter.ge), default=parameter.ge
    )
    if parameter.gt is not None and 0.0 not in parameter.also:
        schema["exclusiveMinimum"] = parameter.gt
    elif lowest is not None:
        schema["minimum"] = lowest
    if math.inf not in parameter.also:
        bounds = {"exclusiveMaximum": parameter.lt, "maximum": parameter.le}
        schema |= {word: bound for word, bound in bounds.items() if bound is not None}
    return schema
