"""Parts: frozen, validated classes that hold their own parameters, and registries that find them by name.

A part declares each of its parameters once. Settings files, overrides, the JSON schema, the reference and the one-line
errors are all made from that declaration:

    class Rician(FadingLaw):
        name = "rician"
        k: float = parameter(1.0, ge=0, description="Power of the line of sight over that of all other paths.")

    Rician(k=-1.0)    # ValueError: k must be at least 0, got -1.0

A `Registry` holds the parts of one kind: those of this package, imported when they are asked for, those that
`Registry.register` has added, and those that installed packages offer as entry points.
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
from typing import Any, ClassVar, Generic, Literal, TypeVar, dataclass_transform

from channels.part_text import by_name, document

LEAST_SCALE, MOST_SCALE = 1e-20, 1e20
"""Numbers between these are carried by single precision."""
REQUIRED = dataclasses.MISSING
"""The default of a parameter that has none."""


@dataclass(frozen=True)
class Parameter:
    """What a part says of one of its parameters.

    Attributes:
        name: As in the class, and as a key in settings files.
        hint: Its type.
        default: Its value where none is given, `REQUIRED` where one has to be.
        description: One sentence.
        unit: In SI symbols, "" for a number without one.
        gt: It must be greater than this, None for no such bound.
        ge: It must be at least this, None for no such bound.
        lt: It must be less than this, None for no such bound.
        le: It must be at most this, None for no such bound.
        also: Numbers that are allowed beside that range.
        key: What a section that holds the parameters of several parts calls it, "" where none does.
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
        default: Its value where none is given; without one it is required.
        description: One sentence, for the reference and the JSON schema.
        unit: Its unit in SI symbols, "" for a number without one.
        gt: It must be greater than this.
        ge: It must be at least this.
        lt: It must be less than this.
        le: It must be at most this.
        also: Numbers that are allowed beside that range, such as 0 for "off" or inf for "no limit".
        key: What a section that holds the parameters of several parts calls it, such as "rician_k" in [channel].
    """
    facts = {"description": description, "unit": unit, "gt": gt, "ge": ge, "lt": lt, "le": le, "also": also, "key": key}
    return dataclasses.field(default=default, metadata=facts)


class PartError(ValueError):
    """A part cannot be made as asked. One line.

    Attributes:
        key: The parameter that is wrong, None where it is the name of the part.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(parameter,))
class Part(ABC):  # noqa: B024  its kinds say what is abstract
    """A frozen class that holds its parameters. A subclass is a dataclass by itself, and its values are checked.

    Attributes:
        name: What settings files call it.
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
        """Raise ValueError for parameters that do not go together; nothing by default."""

    def values(self) -> dict[str, Any]:
        """Its parameters by name."""
        return {one.name: getattr(self, one.name) for one in parameters_of(type(self))}

    def changed(self) -> dict[str, Any]:
        """Its parameters that are not at their defaults."""
        return {
            one.name: value for one in parameters_of(type(self)) if (value := getattr(self, one.name)) != one.default
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.changed().items())})"


def is_built_in(part: Part) -> bool:
    """Whether a part of this package, whose tests hold it to what it promises; a user's own is held to it in a run."""
    return type(part).__module__.partition(".")[0] == __name__.partition(".")[0]


def parameters_of(part: type[Part]) -> tuple[Parameter, ...]:
    """The parameters that a part declares, those of the classes that it derives from first."""
    return part._parameters


def _declared(part: type[Part]) -> tuple[Parameter, ...]:
    # Read when the class is made, while the names of its annotations are there, and kept on it: another process may get
    # the class without the module that they stand in.
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
    """The type that an annotation means; any, where its names are those of a function."""
    if not isinstance(annotation, str):
        return annotation
    names = {**vars(typing), **vars(sys.modules.get(part.__module__, typing))}
    try:
        return eval(annotation, names)
    except NameError:
        return Any


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type: those of a union, or itself."""
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def checked(of: Parameter, value: Any) -> Any:
    """The value in the parameter's type; PartError where it is of another one or out of bounds."""
    kinds = kinds_of(of.hint)
    for kind in kinds:
        fits, found = _as(kind, value)
        if fits:
            if isinstance(found, (int, float)) and not isinstance(found, bool):
                _check_range(of, found)
            return found
    raise PartError(f"{of.name} must be {_wanted(kinds)}, got {value!r}", of.name)


def _as(kind: Any, value: Any) -> tuple[bool, Any]:
    """Whether a value is of that type, and the value in it: whole numbers are numbers, and lists become tuples."""
    if kind is Any:
        return True, value
    if kind is None or kind is type(None):
        return value is None, value
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False, value
        try:
            return True, float(value)
        except OverflowError:
            return False, value
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in arguments), value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            return False, value
        each = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        parts = [_as(*pair) for pair in zip(each, value, strict=False)]
        return len(each) == len(value) and all(fits for fits, _ in parts), tuple(found for _, found in parts)
    return isinstance(value, origin or kind), value


def _wanted(kinds: tuple[Any, ...]) -> str:
    named = {float: "a number", int: "a whole number", bool: "true or false", str: "a text", type(None): "none"}
    told = []
    for kind in kinds:
        if typing.get_origin(kind) is Literal:
            told += [repr(one) for one in typing.get_args(kind)]
        else:
            told.append(named.get(kind) or ("a list" if typing.get_origin(kind) is tuple else str(kind)))
    return ", ".join(told[:-1]) + (" or " if len(told) > 1 else "") + told[-1]


def _check_range(of: Parameter, value: float) -> None:
    if value in of.also:
        return
    if not math.isfinite(value):
        raise PartError(f"{of.name} must be finite, got {value!r}", of.name)
    beside = "".join(f"{one:g} or " for one in of.also)
    if of.gt == 0 and not value > 0:
        raise PartError(f"{of.name} must be {beside}positive, got {value!r}", of.name)
    for bound, holds, words in (
        (of.gt, operator.gt, "greater than"),
        (of.ge, operator.ge, "at least"),
        (of.lt, operator.lt, "less than"),
        (of.le, operator.le, "at most"),
    ):
        if bound is not None and not holds(value, bound):
            raise PartError(f"{of.name} must be {beside}{words} {bound:g}, got {value!r}", of.name)


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
    """The parts of one kind by name.

    Args:
        kind: What a part of it is called in messages, such as "power policy".
        base: The class that they all derive from.
        built_in: Name -> "module:Class" of the parts that come with the package.
        group: The group of entry points under which installed packages offer more, "" for none.
    """

    def __init__(self, kind: str, base: type[P] | str, built_in: Mapping[str, str], group: str = "") -> None:
        self.kind, self.group = kind, group
        self._base, self._homes = base, dict(built_in)
        self._registered: dict[str, type[P]] = {}

    @property
    def base(self) -> type[P]:
        """The class that all parts of this kind derive from."""
        base = self._base
        if isinstance(base, str):
            found: type[P] = _load(base)
            return found
        return base

    def register(self, part: type[P]) -> type[P]:
        """A class decorator that adds a part of the user's own, so that settings can name it.

        Raises PartError for a class of another kind, one without a name, and a name that is taken.
        """
        if not (isinstance(part, type) and issubclass(part, self.base)):
            raise PartError(f"{part!r} is no {self.kind}: it must derive from {self.base.__name__}")
        if not part.name:
            raise PartError(f"{part.__qualname__} needs a name, such as name = {part.__name__.lower()!r}")
        before = self._registered.get(part.name)
        again = before is not None and (before.__module__, before.__qualname__) == (part.__module__, part.__qualname__)
        if not again and part.name in self:  # a cell of a notebook may be run twice
            raise PartError(f"there is a {self.kind} {part.name!r} already; give {part.__qualname__} another name")
        self._registered[part.name] = part
        return part

    def forget(self, modules: str) -> None:
        """Take out what was registered from modules whose name begins so."""
        self._registered = {
            name: part for name, part in self._registered.items() if not part.__module__.startswith(modules)
        }

    def replace(self, part: type[P]) -> None:
        """Register a part, in the place of one of its name that is not of this package: it came from another
        process."""
        self._registered.pop(part.name, None)
        self.register(part)

    @property
    def classes(self) -> dict[str, str]:
        """Name of the class -> name of the part, of those that come with the package."""
        return {home.partition(":")[2]: name for name, home in self._homes.items()}

    def __getitem__(self, name: str) -> type[P]:
        if name in self._registered:
            return self._registered[name]
        part: type[P]
        if name in self._homes:
            part = _load(self._homes[name])
            return part
        if name in self._entry_points:
            part = self._entry_points[name].load()
            if not (isinstance(part, type) and issubclass(part, self.base)):
                raise PartError(f"the entry point {name!r} of {self.group} is no {self.kind}: {part!r}")
            return part
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._homes or name in self._registered or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._homes, *self._registered, *self._entry_points]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @functools.cached_property
    def _entry_points(self) -> dict[str, metadata.EntryPoint]:
        found = metadata.entry_points(group=self.group) if self.group else ()
        return {one.name: one for one in found if one.name not in self._homes}

    def find(self, name: str) -> type[P]:
        """The part of that name; PartError, with the nearest names, where there is none."""
        if name not in self:
            raise PartError(
                f"there is no {self.kind} {name!r}{nearest(name, self)} (allowed: {', '.join(sorted(self))})"
            )
        return self[name]

    def build(self, given: P | str | Mapping[str, Any], default: str = "") -> P:
        """The part that is meant: itself, its name, or a table of its name (or its class) and its parameters.

        Args:
            given: What a user gave.
            default: The name where a table has none.

        Raises PartError for what is none of these, for a parameter that the part does not have (with the nearest one
        that it has, or else the parts that have it), and for a value that is not allowed.
        """
        if isinstance(given, self.base):
            return given
        if isinstance(given, str):
            given = {"name": given}
        if not isinstance(given, Mapping):
            raise PartError(f"a {self.kind}, its name, or a table with its name is wanted, got {given!r}")
        values = dict(given)
        name = values.pop("name", default)
        part = name if isinstance(name, type) and issubclass(name, self.base) else None
        if part is None:
            if not isinstance(name, str):
                raise PartError(f"name must be a text, got {name!r}", "name")
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
        """Names of the parts that have a parameter of that name."""
        return [name for name in self if any(one.name == key for one in parameters_of(self[name]))]

    def _unknown(self, part: type[P], key: str, known: Iterable[str]) -> str:
        """One line for a parameter that a part does not have."""
        have = self.having(key)
        if have:
            return f"{self.kind} {part.name!r} has no {key}, which belongs to {', '.join(have)}; leave it out"
        others = [one.name for other in self.values() for one in parameters_of(other)]
        close = nearest(key, ["name", *known, *others])
        return f"{self.kind} {part.name!r} has no {key}{close} (allowed: {', '.join(sorted(['name', *known]))})"


def nearest(given: str, allowed: Iterable[str]) -> str:
    """'; did you mean X?' for the closest allowed name, else nothing."""
    names = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(given.casefold(), list(names), n=1, cutoff=0.5)
    return f"; did you mean {names[close[0]]}?" if close else ""


def _load(home: str) -> Any:
    """What stands at "module:name"."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)
