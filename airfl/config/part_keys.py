"""A section that holds a part by its name, and the parameters of all parts of that kind as keys of its own.

    [channel]
    fading = "rician"
    rician_k = 5.0

The keys are made from the classes of the parts. In place of the name a table, `fading = { name = "rician", k = 5.0 }`,
or an object may be given; what the section's keys can say is kept by them, so that it is the same settings.
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
from airfl.config.parts import PartOf, schema_of, told
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
)

P = TypeVar("P", bound=Part)
S = TypeVar("S", bound=Section)


class PartTable(Mapping[str, Any]):
    """A part that no name stands for, as the table of its class's name and its parameters; validated again, it is the
    part itself."""

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
    """The name and parameters of a part as files and traces have them: a function by where it stands, and without those
    that are none by default, which TOML cannot say."""
    told = {one.name: getattr(part, one.name) for one in parameters_of(type(part))}
    none = [one.name for one in parameters_of(type(part)) if one.default is None and told[one.name] is None]
    return {"name": name_of(part), **{key: _written(value) for key, value in told.items() if key not in none}}


def name_of(part: Part | str) -> str:
    """What a part, or its name, is called: the name of its class, or else of the class itself."""
    return part if isinstance(part, str) else part.name or type(part).__name__


def _written(value: Any) -> Any:
    if callable(value):
        where = value if hasattr(value, "__qualname__") else type(value)
        return f"{where.__module__}.{where.__qualname__}"
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class NamedPart(Generic[P]):
    """Annotation of a key that holds a part by its name, or a part of the user's own.

    Attributes:
        registry: Where names are looked up.
        key: The dotted key, for messages.
        default: The name where none is given.
        made_of: What makes a part of an object that is no part, a name or a table, such as a function.
        beside: Names that stand for something else than a part of the registry.
        fits: Which parts of the registry the key may hold, None for all.
    """

    registry: Registry[P]
    key: str
    default: str
    made_of: Callable[[object], P] | None = None
    beside: tuple[str, ...] = ()
    fits: Callable[[type[P]], bool] | None = None

    @property
    def names(self) -> list[str]:
        """That the key may have, in order."""
        return sorted([*(name for name in self.registry if self._holds(name)), *self.beside])

    def _holds(self, name: str) -> bool:
        return name in self.registry and (self.fits is None or self.fits(self.registry[name]))

    def flattened(self, data: Any, keys: Mapping[str, FieldInfo], shared: Collection[str] = ()) -> Any:
        """A section's data with the part that they hold as a table or an object, by name where the section's own keys
        say all of it.

        Args:
            data: As they are given to the section.
            keys: Those of the section.
            shared: Those that another part of the section reads, too, and that are not set otherwise for this one.

        Raises ValueError for what is no part, and for a key that says otherwise than the part.
        """
        section, _, slot = self.key.partition(".")
        given = data.get(slot) if isinstance(data, dict) else None
        if given is None or isinstance(given, str):
            return data
        part = self._part(given)
        own = parameters_of(type(part))
        if part.name not in self.registry or self.registry[part.name] is not type(part) or self._travels(type(part)):
            return {**data, slot: part}
        for one in own:
            kept = data.get(one.key, one.default) if one.key in shared else one.default
            if (one.key not in keys or one.key in shared) and getattr(part, one.name) != kept:
                return {**data, slot: part}
        own = tuple(one for one in own if one.key in keys)
        for one in own:
            value, beside = getattr(part, one.name), data.get(one.key)
            if beside not in (None, value, keys[one.key].default):
                raise ValueError(
                    f"{section}.{one.key}: {self.key} is {part!r}, which has its own {one.name} (given: {beside!r}); "
                    "give one of the two"
                )
        return {**data, slot: part.name, **{one.key: _listed(getattr(part, one.name)) for one in own}}

    def keys_read(self, data: Any) -> set[str]:
        """The keys of a section that its part would take its parameters from, by the data that are given to it."""
        given = data.get(self.key.partition(".")[2], self.default) if isinstance(data, dict) else self.default
        part = self.registry.get(given) if isinstance(given, str) else type(self._part(given))
        return {one.key for one in parameters_of(part) if one.key} if part else set()

    def _part(self, given: object) -> P:
        if isinstance(given, PartTable):
            given = given.part
        elif isinstance(given, Mapping):
            given = {key: from_plain(value) for key, value in given.items()}
        try:
            part = (self.made_of or self.registry.build)(given)  # type: ignore[arg-type]
        except PartError as error:
            raise ValueError(told(error, self.key)) from None
        if self.fits is not None and not self.fits(type(part)):
            raise ValueError(f"{self.key}: {self.registry.kind} {part!r} cannot be named here{self._allowed()}")
        for name, value in part.values().items():
            if not (_is_plain(value) or callable(value)):
                raise ValueError(
                    f"{self.key}: {name} of {type(part).__name__} is {type(value).__name__}, which settings cannot "
                    "hold; take numbers, texts and lists of them, or give a function"
                )
        return part

    def of(self, section: Section) -> P:
        """The part of a section, from its name and keys where it is held by name; ValueError where there is none."""
        given = getattr(section, self.key.partition(".")[2])
        if not isinstance(given, str):
            found: P = given
            return found
        part: type[P] = self.registry[given]
        known = type(section).model_fields
        keys = {one.name: getattr(section, one.key) for one in parameters_of(part) if one.key in known}
        try:
            if not keys:
                return self.registry.build(given)
            made: P = _built(part, tuple(keys.items()))
            return made
        except PartError as error:
            raise ValueError(self._told(error, part)) from None

    def _told(self, error: PartError, part: type[P]) -> str:
        """The message of an error, with the section's own key of the parameter in it."""
        flat = next((one.key for one in parameters_of(part) if one.name == error.key), "")
        if not flat:
            return told(error, self.key)
        message, key = str(error), f"{self.key.partition('.')[0]}.{flat}"
        of_its_name = message.startswith(f"{error.key} ")
        return f"{key} {message.removeprefix(f'{error.key} ')}" if of_its_name else f"{key}: {message}"

    def held_by_name(self, given: object) -> bool:
        """Whether this is the name of a part of the user's own, which takes parameters from the section's keys."""
        return isinstance(given, str) and given not in self.beside and given not in self.registry.classes.values()

    def foreign(self, section: Section) -> Iterator[tuple[str, list[str]]]:
        """Each of the section's keys that is set and belongs to other parts than its own, with their names."""
        part = type(self.of(section))
        own = {one.key for one in parameters_of(part)}
        for key, (_, names) in keys_of(self.registry).items():
            if key not in own and getattr(section, key) != type(section).model_fields[key].default:
                yield key, names

    def _checked(self, given: object) -> str | P:
        if isinstance(given, str):
            if given in self.beside:
                return given
            if not self._holds(given):
                raise ValueError(
                    f"there is no {self.registry.kind} {given!r}{nearest(given, self.names)}{self._allowed()}"
                )
            return self._part(given) if self._travels(self.registry[given]) else given
        return self._part(given)

    def _travels(self, part: type[P]) -> bool:
        """Whether it is held as an object even where it has a name: a user's own, whose code goes with it to other
        processes and into fingerprints, but one that takes parameters from the section's keys."""
        return part.name not in self.registry.classes.values() and not any(one.key for one in parameters_of(part))

    def _allowed(self) -> str:
        return f" (allowed: {', '.join(self.names)})"

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        def plain(given: str | P, info: core_schema.SerializationInfo) -> Any:
            if isinstance(given, str):
                return given
            named = given.name in self.registry and self.registry[given.name] is type(given)
            return table_of(given) if named or info.mode == "json" else PartTable(given)

        return core_schema.no_info_plain_validator_function(
            self._checked, serialization=core_schema.plain_serializer_function_ser_schema(plain, info_arg=True)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        parts = {name: self.registry[name] for name in self.names if name not in self.beside}
        name = {"type": "string", "enum": self.names}
        return {"anyOf": [name, schema_of(PartOf(self.registry, self.key, self.default), parts)]}


@functools.lru_cache(maxsize=256)
def _built(part: type[P], values: tuple[tuple[str, Any], ...]) -> P:
    return part(**dict(values))


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(one) for one in value)
    return value is None or isinstance(value, (bool, int, float, str))


def keys_of(*kinds: Mapping[str, type[Part]]) -> dict[str, tuple[Parameter, list[str]]]:
    """The keys that parts give a section, in order: each with its parameter and the names of the parts that have it. Of
    a registry's parts those that come with the package."""
    found: dict[str, tuple[Parameter, list[str]]] = {}
    for parts in kinds:
        for name in parts.classes.values() if isinstance(parts, Registry) else parts:
            for one in parameters_of(parts[name]):
                if one.key:
                    found.setdefault(one.key, (one, []))[1].append(name)
    return found


def parts_of(section: Section, parts: Mapping[str, type[P]]) -> dict[str, P]:
    """All of these parts by name, from the section's keys for them; what has no key is at its default."""
    return {
        name: _built(
            part, tuple((one.name, _tupled(getattr(section, one.key))) for one in parameters_of(part) if one.key)
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
    """A section with the keys of parts.

    Args:
        base: The section without them; one that defers its building is built once, here.
        name: Of the class.
        parts: By name, or their registry, or several of these; a key that parts of several have is one key.
        after: The key that theirs follow, None where there is none before them.
        places: Key -> the one that it follows instead.
    """
    kinds = parts if isinstance(parts, tuple) else (parts,)
    made = {key: field_of(one) for key, (one, _) in keys_of(*kinds).items()}
    section = create_model(name, __base__=base, __module__=base.__module__, __doc__=base.__doc__, **made)  # type: ignore[call-overload]
    order = list(base.model_fields)
    ends = {place: place for place in {after, *places.values()}}
    for key in made:
        place = places.get(key, after)
        before = ends[place]
        order.insert(0 if before is None else order.index(before) + 1, key)
        ends[place] = key
    ordered = {key: section.model_fields[key] for key in order}
    section.model_fields.clear()
    section.model_fields.update(ordered)
    section.model_config["defer_build"] = False
    section.model_rebuild(force=True)  # keys are written and listed in this order
    found: type[S] = section
    return found


def field_of(one: Parameter) -> tuple[Any, FieldInfo]:
    """Type and field of a key, as pydantic takes them, of the parameter that it holds; one that is required may be
    left out as long as its part is not the one that is chosen."""
    kinds = [_kind_of(one, kind) for kind in kinds_of(one.hint)]
    default = one.default
    if default is REQUIRED:
        kinds, default = [*kinds, None], None
    hint: Any = functools.reduce(lambda first, other: first | other, kinds) if len(kinds) > 1 else kinds[0]
    unit = f" [{one.unit}]" if one.unit else ""
    return hint, Field(default, description=f"{one.description}{unit}")


def _kind_of(one: Parameter, kind: Any) -> Any:
    bounds = {word: getattr(one, word) for word in ("gt", "ge", "lt", "le") if getattr(one, word) is not None}
    if kind is float and one.ge == LEAST_SCALE and one.le == MOST_SCALE:
        return ScaleOrZero if 0.0 in one.also else ScaleOrInfinite if math.inf in one.also else Scale
    if kind is float and not one.also:
        return Annotated[float, Field(**bounds), AllowInfNan(False)]
    if kind is int and not one.also:
        return Annotated[int, Field(**bounds)] if bounds else int
    if kind in (bool, str, type(None)) or get_origin(kind) is Literal:
        return kind
    if get_origin(kind) is tuple:
        hints = get_args(kind)
        listed: Any = list.__class_getitem__(_kind_of(one, hints[0]))
        return (
            listed if hints[-1] is Ellipsis else Annotated[listed, Field(min_length=len(hints), max_length=len(hints))]
        )
    raise TypeError(f"{one.key}: no key is made of a parameter of type {kind} with those bounds; leave its key out")


def other_parts(settings: Any, tables: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, recorded, given) wherever recorded settings have another part of the user's own than `settings`."""
    for section, key, recorded, given in _own_parts(settings, tables):
        now = table_of(given) if isinstance(given, Part) else given
        then = dict(recorded) if isinstance(recorded, Mapping) else recorded
        if to_json(then) != to_json(now):  # as it is recorded: inf is a text there
            yield f"{section}.{key}", then, now


def with_parts_of(settings: Any, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded settings as tables, with the parts of the user's own that `settings` have: nothing recorded is made into
    one. What is no table is left as it is."""
    if not isinstance(tables, Mapping):
        return tables
    made = {name: dict(table) if isinstance(table, Mapping) else table for name, table in tables.items()}
    for section, key, _, given in _own_parts(settings, tables):
        made[section][key] = given
    return made


def _own_parts(settings: Any, tables: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """(section, key, recorded, given) of what is a part of the user's own on either side."""
    for section, table in tables.items() if isinstance(tables, Mapping) else ():
        if not isinstance(table, Mapping) or not isinstance(getattr(settings, section, None), Section):
            continue
        for key, given in getattr(settings, section):
            recorded = table.get(key)
            if isinstance(given, Part) or isinstance(recorded, Mapping):
                yield section, key, recorded, given
