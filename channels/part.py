"""Parts: frozen, validated classes that hold their own parameters, and registries that find them by name.

A part declares each of its parameters once. Settings files, overrides, the JSON schema, the reference pages and the
one-line errors are all generated from that declaration:

    class Rician(FadingLaw):
        name = "rician"
        k: float = parameter(1.0, ge=0, description="Power of the line of sight over that of all other paths.")

    Rician(k=-1.0)    # ValueError: k must be at least 0, got -1.0

A `Registry` holds the parts of one kind: those of this package, imported on first use, those added with
`Registry.register`, and those that installed packages offer as entry points.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
import operator
import sys
import types
import typing
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, Literal, TypeVar, dataclass_transform

from channels.part_text import by_name, document

LEAST_SCALE, MOST_SCALE = 1e-20, 1e20
"""Range of magnitudes that single precision represents safely."""
REQUIRED = dataclasses.MISSING
"""Marks a parameter without a default."""
LONGEST_SHOWN = 120
"""Characters of a given value that an error message quotes."""


@dataclass(frozen=True)
class Parameter:
    """The declaration of one parameter of a part.

    Attributes:
        name: Name in the class, and key in settings files.
        hint: Type hint.
        default: Default value, `REQUIRED` if there is none.
        description: One sentence.
        unit: Unit in SI symbols, "" for a dimensionless number.
        gt: Exclusive lower bound, None for no bound.
        ge: Inclusive lower bound, None for no bound.
        lt: Exclusive upper bound, None for no bound.
        le: Inclusive upper bound, None for no bound.
        also: Numbers that are allowed in addition to that range.
        key: Key in a section that holds the parameters of several parts, "" if there is none.
    """

    name: str
    hint: Any
    default: Any
    description: str
    unit: str = ""
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    also: tuple[float, ...] = ()
    key: str = ""


def parameter(
    default: Any = REQUIRED,
    *,
    description: str,
    unit: str = "",
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    also: tuple[float, ...] = (),
    key: str = "",
) -> Any:
    """Declare a parameter of a part.

    Args:
        default: Default value; without one the parameter is required.
        description: One sentence, for the reference and the JSON schema.
        unit: Unit in SI symbols, "" for a dimensionless number.
        gt: Exclusive lower bound.
        ge: Inclusive lower bound.
        lt: Exclusive upper bound.
        le: Inclusive upper bound.
        also: Numbers that are allowed in addition to that range, such as 0 for "off" or inf for "no limit".
        key: Key in a section that holds the parameters of several parts, such as "rician_k" in [channel].
    """
    declared = {"description": description, "unit": unit, "gt": gt, "ge": ge, "lt": lt, "le": le}
    return dataclasses.field(default=default, metadata={**declared, "also": also, "key": key})


class PartError(ValueError):
    """A part cannot be built from the given arguments. The message is one line.

    Attributes:
        key: The parameter at fault, None if it is the name of the part.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(parameter,))
class Part(ABC):  # noqa: B024  the abstract methods are in the subclasses
    """Base class of all parts. Subclasses become frozen dataclasses whose parameters are validated on construction.

    Attributes:
        name: Name of the part in settings files.
    """

    name: ClassVar[str] = ""
    _parameters: ClassVar[tuple[Parameter, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, kw_only=True, repr=False)(cls)
        cls._parameters = _declared(cls)
        document(cls)
        cls.__init__ = by_name(cls, PartError)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for one in parameters_of(type(self)):
            object.__setattr__(self, one.name, checked(one, getattr(self, one.name)))
        self.check()

    def check(self) -> None:  # noqa: B027
        """Raise ValueError if the parameters are inconsistent with each other. Does nothing by default."""

    def values(self) -> dict[str, Any]:
        """Return the values of all parameters by name."""
        return {one.name: getattr(self, one.name) for one in parameters_of(type(self))}

    def changed(self) -> dict[str, Any]:
        """Return the values of the parameters that differ from their defaults."""
        return {
            one.name: value for one in parameters_of(type(self)) if (value := getattr(self, one.name)) != one.default
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.changed().items())})"


def is_built_in(part: Part) -> bool:
    """Whether a part comes with this package. Built-in parts are tested; user-defined ones are checked during a run."""
    return type(part).__module__.partition(".")[0] == __name__.partition(".")[0]


def parameters_of(part: type[Part]) -> tuple[Parameter, ...]:
    """Return the declared parameters of a part, inherited ones first."""
    return part._parameters


def _declared(part: type[Part]) -> tuple[Parameter, ...]:
    # Evaluated at class creation and stored on the class, because another process may receive the class without the
    # module in which the names of its annotations are defined.
    inherited = {one.name: one for base in reversed(part.__mro__[1:]) for one in getattr(base, "_parameters", ())}
    own = inspect.get_annotations(part)
    return tuple(
        Parameter(field.name, _hint(part, own[field.name]), field.default, **field.metadata)
        if field.name in own
        else inherited[field.name]
        for field in dataclasses.fields(part)  # type: ignore[arg-type]
        if field.metadata
    )


def _hint(part: type[Part], annotation: Any) -> Any:
    """Evaluate an annotation; return Any if it refers to names local to a function."""
    if not isinstance(annotation, str):
        return annotation
    names = {**vars(typing), **vars(sys.modules.get(part.__module__, typing))}
    try:
        return eval(annotation, names)
    except NameError:
        return Any


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union type, or the type itself as the only member."""
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def checked(declared: Parameter, value: Any) -> Any:
    """Return the value converted to the parameter's type; raise PartError for a wrong type or a value out of range."""
    kinds = kinds_of(declared.hint)
    for kind in kinds:
        fits, converted = _convert(kind, value)
        if fits:
            if isinstance(converted, (int, float)) and not isinstance(converted, bool):
                _check_range(declared, converted)
            return converted
    raise PartError(f"{declared.name} must be {_type_names(kinds)}, got {shown_value(value)}", declared.name)


def _convert(kind: Any, value: Any) -> tuple[bool, Any]:
    """Return whether a value fits a type, and the converted value.

    Integers become floats where floats are expected, numbers of numpy those of Python, and lists tuples.
    """
    if kind is Any:
        return True, value
    if kind is None or kind is type(None):
        return value is None, value
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, Real):
            return False, value
        try:
            return True, float(value)
        except OverflowError:
            return False, value
    if kind is int:
        fits = isinstance(value, Integral) and not isinstance(value, bool)
        return fits, int(value) if fits else value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in arguments), value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            return False, value
        each = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        items = [_convert(*pair) for pair in zip(each, value, strict=False)]
        return len(each) == len(value) and all(fits for fits, _ in items), tuple(item for _, item in items)
    return isinstance(value, origin or kind), value


def _type_names(kinds: tuple[Any, ...]) -> str:
    """Describe the allowed types for an error message."""
    named = {float: "a number", int: "an integer", bool: "true or false", str: "a string", type(None): "none"}
    names = []
    for kind in kinds:
        if typing.get_origin(kind) is Literal:
            names += [repr(one) for one in typing.get_args(kind)]
        else:
            names.append(named.get(kind) or ("a list" if typing.get_origin(kind) is tuple else str(kind)))
    return ", ".join(names[:-1]) + (" or " if len(names) > 1 else "") + names[-1]


def _check_range(declared: Parameter, value: float) -> None:
    if value in declared.also:
        return
    name = declared.name
    if not math.isfinite(value):
        raise PartError(f"{name} must be finite, got {value!r}", name)
    also = "".join(f"{one:g} or " for one in declared.also)
    if declared.gt == 0 and not value > 0:
        raise PartError(f"{name} must be {also}positive, got {value!r}", name)
    for bound, holds, words in (
        (declared.gt, operator.gt, "greater than"),
        (declared.ge, operator.ge, "at least"),
        (declared.lt, operator.lt, "less than"),
        (declared.le, operator.le, "at most"),
    ):
        if bound is not None and not holds(value, bound):
            raise PartError(f"{name} must be {also}{words} {bound:g}, got {value!r}", name)


P = TypeVar("P", bound=Part)


def lazily(
    module: str, names: Iterable[str], *registries: Registry[Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that has, beside `names`, the classes of the registries' built-in parts.

    A class is imported when it is asked for; `__getattr__` raises AttributeError for any other name.
    """
    homes = {name: registry for registry in registries for name in registry.classes}

    def attribute(name: str) -> Any:
        if name in homes:
            return homes[name][homes[name].classes[name]]
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return attribute, lambda: sorted({*names, *homes})


class Registry(Mapping[str, type[P]], Generic[P]):
    """Mapping from names to the parts of one kind.

    Args:
        kind: Name of the kind in messages, such as "power policy".
        base: Base class of all parts of the kind, or its "module:Class".
        built_in: Name -> "module:Class" of the parts that come with the package.
        group: Entry-point group under which installed packages offer more parts, "" for none.
    """

    def __init__(self, kind: str, base: type[P] | str, built_in: Mapping[str, str], group: str = "") -> None:
        self.kind, self.group = kind, group
        self._base, self._locations = base, dict(built_in)
        self._registered: dict[str, type[P]] = {}

    @property
    def base(self) -> type[P]:
        """The base class of all parts of this kind."""
        base = self._base
        if isinstance(base, str):
            loaded: type[P] = class_at(base)
            return loaded
        return base

    def register(self, part: type[P]) -> type[P]:
        """Register a user-defined part, so that settings can name it. Usable as a class decorator.

        Raises PartError for a class of another kind, a class without a name, or a name that is already taken.
        """
        if not (isinstance(part, type) and issubclass(part, self.base)):
            raise PartError(f"{part!r} cannot be registered as {self.kind}: it must derive from {self.base.__name__}")
        if not part.name:
            raise PartError(f"{part.__qualname__} needs a name, such as name = {part.__name__.lower()!r}")
        before = self._registered.get(part.name)
        again = before is not None and (before.__module__, before.__qualname__) == (part.__module__, part.__qualname__)
        if not again and part.name in self:  # a notebook cell may be run twice
            raise PartError(f"{self.kind} {part.name!r} already exists; give {part.__qualname__} another name")
        self._registered[part.name] = part
        return part

    def forget(self, modules: str) -> None:
        """Unregister the parts from modules whose names start with `modules`."""
        self._registered = {
            name: part for name, part in self._registered.items() if not part.__module__.startswith(modules)
        }

    def replace(self, part: type[P]) -> None:
        """Register a part that came from another process, replacing a registered part of the same name."""
        self._registered.pop(part.name, None)
        self.register(part)

    @property
    def classes(self) -> dict[str, str]:
        """Mapping from class names to part names, for the parts that come with the package."""
        return {location.partition(":")[2]: name for name, location in self._locations.items()}

    def __getitem__(self, name: str) -> type[P]:
        if not isinstance(name, str):  # settings may name a part by anything
            raise KeyError(name)
        if name in self._registered:
            return self._registered[name]
        part: type[P]
        if name in self._locations:
            part = class_at(self._locations[name])
            return part
        if name in self._entry_points:
            part = self._entry_points[name].load()
            if not (isinstance(part, type) and issubclass(part, self.base)):
                raise PartError(
                    f"entry point {name!r} of {self.group} must be a class derived from {self.base.__name__}, "
                    f"got {part!r}"
                )
            return part
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        known = (self._locations, self._registered, self._entry_points)
        return isinstance(name, str) and any(name in names for names in known)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._locations, *self._registered, *self._entry_points]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @functools.cached_property
    def _entry_points(self) -> dict[str, metadata.EntryPoint]:
        entry_points = metadata.entry_points(group=self.group) if self.group else ()
        return {one.name: one for one in entry_points if one.name not in self._locations}

    def find(self, name: str) -> type[P]:
        """Return the part of that name; raise PartError with the closest names for an unknown one."""
        if name not in self:
            raise PartError(
                f"unknown {self.kind} {shown_value(name)}{nearest(name, self)} (allowed: {', '.join(sorted(self))})"
            )
        return self[name]

    def build(self, given: P | str | Mapping[str, Any], default: str = "") -> P:
        """Build a part from a part, a name, or a table with a name (or a class) and parameters.

        Args:
            given: The part, its name, or the table.
            default: The name to use if a table has none.

        Raises PartError for anything else, for a parameter that the part does not have (naming the closest parameter,
        or the parts that do have it), and for a value that is not allowed.
        """
        if isinstance(given, self.base):
            return given
        if isinstance(given, str):
            given = {"name": given}
        if not isinstance(given, Mapping):
            raise PartError(
                f"{self.kind} must be an instance, a name, or a table with a name, got {shown_value(given)}"
            )
        values = dict(given)
        if not default and "name" not in values:
            allowed = self.having(next(iter(values))) if values else []
            which = f" with {next(iter(values))}" if allowed else ""
            raise PartError(
                f"a table for the {self.kind} needs a name (allowed{which}: {', '.join(allowed or sorted(self))})",
                "name",
            )
        name = values.pop("name", default)
        part = name if isinstance(name, type) and issubclass(name, self.base) else None
        if part is None:
            if not isinstance(name, str):
                raise PartError(f"name must be a string, got {shown_value(name)}", "name")
            try:
                part = self.find(name)
            except PartError as error:
                raise PartError(str(error), "name") from None
        known = {one.name: one for one in parameters_of(part)}
        for key in values:
            if key not in known:
                raise PartError(self._unknown(part, key, known), key)
        missing = [one.name for one in known.values() if one.default is REQUIRED and one.name not in values]
        if missing:
            raise PartError(
                f"{self.kind} {part.name!r} needs {missing[0]}: {known[missing[0]].description}", missing[0]
            )
        return part(**values)

    def having(self, key: str) -> list[str]:
        """Return the names of the parts that have a parameter of that name."""
        return [name for name in self if any(one.name == key for one in parameters_of(self[name]))]

    def _unknown(self, part: type[P], key: str, known: Iterable[str]) -> str:
        """The error message for a parameter that a part does not have."""
        have = self.having(key)
        if have:
            return f"{self.kind} {part.name!r} has no {key}, which belongs to {', '.join(have)}; leave it out"
        others = [one.name for other in self.values() for one in parameters_of(other)]
        close = nearest(key, ["name", *known, *others])
        return f"{self.kind} {part.name!r} has no {key}{close} (allowed: {', '.join(sorted(['name', *known]))})"


def shown_value(given: object) -> str:
    """Return a value's repr for an error message; a long one is shortened in the middle."""
    text = repr(given)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN // 2]} ... {text[-LONGEST_SHOWN // 4 :]}"


def nearest(given: str, allowed: Iterable[str]) -> str:
    """Return '; did you mean X?' for the closest allowed name, or an empty string."""
    names = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(given.casefold(), list(names), n=1, cutoff=0.5)
    return f"; did you mean {names[close[0]]}?" if close else ""


def class_at(location: str) -> Any:
    """Import the object at "module:name"."""
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)
