"""Sections that hold a part by its name, and the parameters of all parts of that kind as keys of the section.

    [channel]
    fading = "rician"
    rician_k = 5.0

The keys are generated from the classes of the parts. A table, `fading = { name = "rician", k = 5.0 }`, or an object may
be given instead of the name. If the section's keys can express it, it is stored as name and keys, so that both forms
give equal settings.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import AllowInfNan, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, create_model
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from airfl.config.json_numbers import from_plain, to_json
from airfl.config.parts import PartOf, check_name, error_text, schema_of
from airfl.config.section import Scale, ScaleOrInfinite, ScaleOrZero, Section
from channels.part import (
    LEAST_SCALE,
    MOST_SCALE,
    REQUIRED,
    Parameter,
    Part,
    PartError,
    Registry,
    kinds_of,
    nearest,
    parameters_of,
    shown_value,
)

P = TypeVar("P", bound=Part)
S = TypeVar("S", bound=Section)


class PartTable(Mapping[str, Any]):
    """The name and parameters of a part that is not registered under its name, as a read-only mapping.

    Validating it gives the part itself.
    """

    def __init__(self, part: Part) -> None:
        self.part, self._table = part, table_of(part)

    def __getitem__(self, key: str) -> Any:
        return self._table[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return repr(self._table)


def table_of(part: Part) -> dict[str, Any]:
    """Return the name and parameters of a part as written to files and traces.

    A function is replaced by its qualified name. Parameters that are None by default are left out, since TOML has no
    null.
    """
    values = {parameter.name: getattr(part, parameter.name) for parameter in parameters_of(type(part))}
    none = [
        parameter.name
        for parameter in parameters_of(type(part))
        if parameter.default is None and values[parameter.name] is None
    ]
    return {"name": name_of(part), **{key: _plain(value) for key, value in values.items() if key not in none}}


def name_of(part: Part | str) -> str:
    """Return the registered name of a part, given the part or its name; the name of its class if it has none."""
    return part if isinstance(part, str) else part.name or type(part).__name__


def _plain(value: Any) -> Any:
    if callable(value):
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}.{named.__qualname__}"
    return _listed(value)


@dataclass(frozen=True)
class NamedPart(Generic[P]):
    """Annotation of a key that holds a part by its name, or a user-defined part.

    Attributes:
        registry: The registry in which names are looked up.
        key: The dotted key, for messages.
        default: The name of the part if none is given.
        factory: Function that builds the part from any object, for keys that also take, for instance, a function; None
            for `registry.build`.
        extra_names: Further allowed names, which do not stand for a part of the registry.
        accepts: Predicate of the classes that the key may hold; None for all.
    """

    registry: Registry[P]
    key: str
    default: str
    factory: Callable[[object], P] | None = None
    extra_names: tuple[str, ...] = ()
    accepts: Callable[[type[P]], bool] | None = None

    @property
    def names(self) -> list[str]:
        """The names that the key may have, sorted."""
        return sorted([*(name for name in self.registry if self._is_allowed(name)), *self.extra_names])

    def _is_allowed(self, name: str) -> bool:
        return name in self.registry and (self.accepts is None or self.accepts(self.registry[name]))

    def flattened(self, data: Any, keys: Mapping[str, FieldInfo], shared: Collection[str] = ()) -> Any:
        """Return a section's data with a part that is a table or an object replaced by its name and the section's keys.

        The part stays an object if the section's keys cannot express it, or if it is user-defined and has parameters
        that are not keys of the section, whatever their values: a trace then has them all.

        Args:
            data: The data given to the section.
            keys: The keys of the section.
            shared: Keys that another part of the section reads, too, and that must not be set for this one.

        Raises ValueError if the part cannot be built, or if a key contradicts it.
        """
        section, _, slot = self.key.partition(".")
        value = data.get(slot) if isinstance(data, dict) else None
        if value is None or isinstance(value, str):
            return data
        part = self._part(self._completed(value, data, keys, shared))
        own = parameters_of(type(part))
        keyed = tuple(parameter for parameter in own if parameter.key in keys)
        for parameter in keyed:
            of_part, of_key = getattr(part, parameter.name), data.get(parameter.key)
            if parameter.key not in shared and of_key not in (None, of_part, keys[parameter.key].default):
                raise ValueError(
                    f"{section}.{parameter.key}: {of_key!r} contradicts {parameter.name} of {self.key} = {part!r}; set "
                    "only one of the two"
                )
        registered = part.name in self.registry and self.registry[part.name] is type(part)
        if not registered or (self._is_own(type(part)) and (not own or len(keyed) < len(own))):
            return {**data, slot: part}
        for parameter in own:
            implied = data.get(parameter.key, parameter.default) if parameter.key in shared else parameter.default
            if (parameter.key not in keys or parameter.key in shared) and getattr(part, parameter.name) != implied:
                return {**data, slot: part}
        values = {parameter.key: _listed(getattr(part, parameter.name)) for parameter in keyed}
        return {**data, slot: part.name, **values}

    def _completed(self, value: object, data: Any, keys: Mapping[str, FieldInfo], shared: Collection[str]) -> object:
        """Return a user-defined part with the values of the section's keys, as a table, if any of them sets a parameter
        that has its default; other values unchanged."""
        held = value.part if isinstance(value, PartTable) else value
        table = {"name": type(held), **held.values()} if isinstance(held, Part) else held
        if not isinstance(table, Mapping):
            return value
        name: Any = table.get("name")
        part = name if isinstance(name, type) else self.registry.get(name)
        if part is None or not issubclass(part, Part) or not self._is_own(part):
            return value
        given = {
            one.name: data[one.key]
            for one in parameters_of(part)
            if one.key in keys and one.key not in shared and table.get(one.name, one.default) == one.default
            if data.get(one.key) not in (None, keys[one.key].default)
        }
        return {**table, **given} if given else value

    def keys_read(self, data: Any) -> set[str]:
        """Return the keys that the part of a section reads its parameters from, according to the section's data."""
        value = data.get(self.key.partition(".")[2], self.default) if isinstance(data, dict) else self.default
        part = self.registry.get(value) if isinstance(value, str) else type(self._part(value))
        return {parameter.key for parameter in parameters_of(part) if parameter.key} if part else set()

    def _part(self, value: object) -> P:
        if isinstance(value, PartTable):
            value = value.part
        elif isinstance(value, Mapping):
            value = {key: from_plain(parameter) for key, parameter in value.items()}
        try:
            part = (self.factory or self.registry.build)(value)  # type: ignore[arg-type]
            check_name(part, self.registry)
        except PartError as error:
            raise ValueError(error_text(error, self.key)) from None
        if self.accepts is not None and not self.accepts(type(part)):
            raise ValueError(f"{self.key}: the {self.registry.kind} {part!r} cannot be used here{self._allowed()}")
        for name, parameter in part.values().items():
            if not (_is_plain(parameter) or callable(parameter)):
                raise ValueError(
                    f"{self.key}: {name} of {type(part).__name__} must be a number, a string, a list of these or a "
                    f"function, got {type(parameter).__name__}"
                )
        return part

    def of(self, section: Section) -> P:
        """Return the part of a section, built from its name and keys if necessary. Raises ValueError if that fails."""
        value = getattr(section, self.key.partition(".")[2])
        if not isinstance(value, str):
            held: P = value
            return held
        part: type[P] = self.registry[value]
        fields = type(section).model_fields
        parameters = {
            parameter.name: getattr(section, parameter.key)
            for parameter in parameters_of(part)
            if parameter.key in fields
        }
        try:
            if not parameters:
                return self.registry.build(value)
            # TOML has lists, which the cache cannot hash.
            values = tuple((name, _tupled(value)) for name, value in parameters.items())
            built: P = _built(part, values)
            return built
        except PartError as error:
            raise ValueError(self._message(error, part)) from None

    def _message(self, error: PartError, part: type[P]) -> str:
        """Return the message of an error, with the section's key for the parameter in it."""
        section_key = next((parameter.key for parameter in parameters_of(part) if parameter.name == error.key), "")
        if not section_key:
            return error_text(error, self.key)
        message, key = str(error), f"{self.key.partition('.')[0]}.{section_key}"
        if message.startswith(f"{error.key} "):
            return f"{key} {message.removeprefix(f'{error.key} ')}"
        return f"{key}: {message}"

    def held_by_name(self, value: object) -> bool:
        """Return whether this is the name of a user-defined part, which reads parameters from the section's keys."""
        return isinstance(value, str) and value not in self.extra_names and value not in self.registry.classes.values()

    def foreign(self, section: Section) -> Iterator[tuple[str, list[str]]]:
        """Yield each key of the section that is set but read by other parts only, with the names of these."""
        part = type(self.of(section))
        own = {parameter.key for parameter in parameters_of(part)}
        for key, (_, names) in keys_of(self.registry).items():
            if key not in own and getattr(section, key) != type(section).model_fields[key].default:
                yield key, names

    def _checked(self, value: object) -> str | P:
        if isinstance(value, str):
            if value in self.extra_names:
                return value
            if not self._is_allowed(value):
                raise ValueError(
                    f"unknown {self.registry.kind} {shown_value(value)}{nearest(value, self.names)}{self._allowed()}"
                )
            part = self.registry[value]
            reads_keys = any(parameter.key for parameter in parameters_of(part))
            return self._part(value) if self._is_own(part) and not reads_keys else value
        return self._part(value)

    def _is_own(self, part: type[Part]) -> bool:
        """Return whether the part is user-defined, so that its code is sent to other processes and is part of
        fingerprints."""
        return part.name not in self.registry.classes.values()

    def _allowed(self) -> str:
        return f" (allowed: {', '.join(self.names)})"

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        def plain(value: str | P, info: core_schema.SerializationInfo) -> Any:
            if isinstance(value, str):
                return value
            registered = value.name in self.registry and self.registry[value.name] is type(value)
            return table_of(value) if registered or info.mode == "json" else PartTable(value)

        return core_schema.no_info_plain_validator_function(
            self._checked, serialization=core_schema.plain_serializer_function_ser_schema(plain, info_arg=True)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        parts = {name: self.registry[name] for name in self.names if name not in self.extra_names}
        name = {"type": "string", "enum": self.names}
        return {"anyOf": [name, schema_of(PartOf(self.registry, self.key, self.default), parts)]}


@functools.lru_cache(maxsize=256)
def _built(part: type[P], values: tuple[tuple[str, Any], ...]) -> P:
    return part(**dict(values))


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def _listed(value: Any) -> Any:
    return [_listed(entry) for entry in value] if isinstance(value, tuple) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(one) for one in value)
    return value is None or isinstance(value, (bool, int, float, str))


def keys_of(*kinds: Mapping[str, type[Part]]) -> dict[str, tuple[Parameter, list[str]]]:
    """Return key -> (parameter, names of the parts that have it) for the keys that parts add to a section, in order.

    Of a registry only the built-in parts count.
    """
    keys: dict[str, tuple[Parameter, list[str]]] = {}
    for parts in kinds:
        for name in parts.classes.values() if isinstance(parts, Registry) else parts:
            for parameter in parameters_of(parts[name]):
                if parameter.key:
                    keys.setdefault(parameter.key, (parameter, []))[1].append(name)
    return keys


def parts_of(section: Section, parts: Mapping[str, type[P]]) -> dict[str, P]:
    """Build all of these parts from the section's keys, by name. Parameters without a key have their defaults."""
    return {
        name: _built(
            part,
            tuple(
                (parameter.name, _tupled(getattr(section, parameter.key)))
                for parameter in parameters_of(part)
                if parameter.key
            ),
        )
        for name, part in parts.items()
    }


def with_keys(
    base: type[S],
    name: str,
    parts: Mapping[str, type[Part]] | tuple[Mapping[str, type[Part]], ...],
    after: str | None,
    places: Mapping[str, str],
) -> type[S]:
    """Create a section with the keys of parts.

    Args:
        base: The section without these keys. If it defers its building, it is built once, here.
        name: The name of the class.
        parts: The parts by name, their registry, or several of these. A key that parts of several have is one key.
        after: The key after which the new keys are placed; None to place them first.
        places: Key -> the key after which it is placed instead.
    """
    kinds = parts if isinstance(parts, tuple) else (parts,)
    new_fields = {key: field_of(parameter) for key, (parameter, _) in keys_of(*kinds).items()}
    section = create_model(name, __base__=base, __module__=base.__module__, __doc__=base.__doc__, **new_fields)  # type: ignore[call-overload]
    order = list(base.model_fields)
    ends = {place: place for place in {after, *places.values()}}
    for key in new_fields:
        place = places.get(key, after)
        before = ends[place]
        order.insert(0 if before is None else order.index(before) + 1, key)
        ends[place] = key
    ordered = {key: section.model_fields[key] for key in order}
    section.model_fields.clear()
    section.model_fields.update(ordered)
    section.model_config["defer_build"] = False
    section.model_rebuild(force=True)  # fixes the order in which keys are written and listed
    created: type[S] = section
    return created


def field_of(parameter: Parameter) -> tuple[Any, FieldInfo]:
    """Return the type and the pydantic field of the key that holds a parameter.

    The key of a required parameter is None by default, since it is required only if its part is chosen.
    """
    kinds = [_kind_of(parameter, kind) for kind in kinds_of(parameter.hint)]
    default = _listed(parameter.default)
    if default is REQUIRED:
        kinds, default = [*kinds, None], None
    hint: Any = functools.reduce(lambda first, other: first | other, kinds) if len(kinds) > 1 else kinds[0]
    unit = f" [{parameter.unit}]" if parameter.unit else ""
    return hint, Field(default, description=f"{parameter.description}{unit}")


def _kind_of(parameter: Parameter, kind: Any) -> Any:
    bounds = {
        word: getattr(parameter, word) for word in ("gt", "ge", "lt", "le") if getattr(parameter, word) is not None
    }
    if kind is float and parameter.ge == LEAST_SCALE and parameter.le == MOST_SCALE:
        return ScaleOrZero if 0.0 in parameter.also else ScaleOrInfinite if math.inf in parameter.also else Scale
    if kind is float and not parameter.also:
        return Annotated[float, Field(**bounds), AllowInfNan(False)]
    if kind is int and not parameter.also:
        return Annotated[int, Field(**bounds)] if bounds else int
    if kind in (bool, str, type(None)) or get_origin(kind) is Literal:
        return kind
    if get_origin(kind) is tuple:
        hints = get_args(kind)
        listed: Any = list.__class_getitem__(_kind_of(parameter, hints[0]))
        return (
            listed if hints[-1] is Ellipsis else Annotated[listed, Field(min_length=len(hints), max_length=len(hints))]
        )
    raise TypeError(
        f"{parameter.key}: a parameter of type {kind} with these bounds cannot have a key; declare it without one"
    )


def other_parts(settings: Any, tables: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted key, recorded, current) for each user-defined part that differs from the recorded one.

    Args:
        settings: The current settings.
        tables: The recorded settings.
    """
    for section, key, recorded, current in _own_parts(settings, tables):
        new = table_of(current) if isinstance(current, Part) else current
        old = dict(recorded) if isinstance(recorded, Mapping) else recorded
        if to_json(old) != to_json(new):  # compared as JSON, since infinity is recorded as a string
            yield f"{section}.{key}", old, new


def with_parts_of(settings: Any, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded settings as tables, with user-defined parts replaced by those of `settings`.

    No user-defined part is built from recorded data. Anything that is not a mapping is returned unchanged.
    """
    if not isinstance(tables, Mapping):
        return tables
    copied = {name: dict(table) if isinstance(table, Mapping) else table for name, table in tables.items()}
    for section, key, _, current in _own_parts(settings, tables):
        copied[section][key] = current
    return copied


def _own_parts(settings: Any, tables: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield (section, key, recorded, current) for each key that holds a user-defined part on either side."""
    for section, table in tables.items() if isinstance(tables, Mapping) else ():
        if not isinstance(table, Mapping) or not isinstance(getattr(settings, section, None), Section):
            continue
        for key, current in getattr(settings, section):
            recorded = table.get(key)
            if isinstance(current, Part) or isinstance(recorded, Mapping):
                yield section, key, recorded, current
