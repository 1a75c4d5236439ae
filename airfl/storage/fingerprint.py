"""Fingerprints of user-defined parts: a short hash of a class's code, of what this code uses, and of its parameters.

Checkpoints and traces record it, so that a run is not resumed with other code under the same name. It is computed from
the compiled code (the source of a notebook cannot be read again) of the class, its base classes, and the functions and
classes that they refer to, without airfl itself and installed packages.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from channels.part import Part

OURS = ("airfl.", "channels.")
LIBRARIES = frozenset({"airfl", "channels", *sys.stdlib_module_names}) - {"__main__"}
INSTALLED = frozenset({"site-packages", "dist-packages"})
DIGITS = 16
PLAIN = (bool, int, float, complex, str, bytes, type(None))


def is_own(part: Part) -> bool:
    """Whether a part is user-defined, or a built-in part with a function as parameter."""
    return not type(part).__module__.startswith(OURS) or bool(functions_of(part))


def functions_of(part: Part) -> list[Any]:
    """Return the callable parameters of a part."""
    return [value for value in part.values().values() if callable(value)]


def fingerprint(part: Part) -> str:
    """Return a hash of the code of a part's class and of its parameters, the same in every process of one Python."""
    plain = {key: value for key, value in part.values().items() if not callable(value)}
    digest = hashlib.sha256(f"{type(part).__qualname__}({plain!r})".encode())
    for one in map(unwrapped, functions_of(part)):
        called = one if hasattr(one, "__code__") else type(one).__call__
        for text in _function(called) if hasattr(called, "__code__") else (repr(type(one)),):
            digest.update(text.encode() + b"\0")
    for text in _code_of_part(part, functions_of(part)):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:DIGITS]


def code_fingerprint(part: Part) -> str:
    """Return a hash of a part's code alone, independent of its parameters."""
    digest = hashlib.sha256(type(part).__qualname__.encode())
    for text in _code_of_part(part):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:DIGITS]


def fingerprint_of_code(code: Iterable[Any]) -> str:
    """Return a hash of the user's functions and classes among these, and of what they use, the same in every process of
    one Python and in any order."""
    walk, digest = _Walk("", set()), hashlib.sha256()
    for one in sorted(code, key=_place):
        for text in walk.of(one):
            digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:DIGITS]


def _place(one: Any) -> tuple[str, str]:
    """Return module and name of a function or class, or of an object's class."""
    named = one if hasattr(one, "__qualname__") else type(one)
    return str(named.__module__), str(named.__qualname__)


def _code_of_part(part: Part, functions: Sequence[Any] = ()) -> Iterator[str]:
    """Yield texts for the code of a part's class and base classes, and for what they and the given functions use."""
    kinds = [one for one in type(part).__mro__ if _root(one) not in ("airfl", "channels", "builtins", "abc", "typing")]
    for one in kinds:
        yield from _code_of(one)
    yield from beside([*kinds, *functions], _root(type(part)))


def beside(code: Iterable[Any], package: str = "") -> Iterator[str]:
    """Yield texts for the user's functions, classes and constants that code uses, directly or indirectly, each once.

    Args:
        code: Functions and classes. Only what they use is yielded, not they themselves.
        package: The package whose code counts as the user's even if it is installed.
    """
    given = list(code)
    walk = _Walk(package, {id(one) for one in given})
    for one in given:
        yield from walk.inside(one)


class _Walk:
    """A traversal of code by the global names that it uses. Every object is visited once, so that cycles end."""

    def __init__(self, package: str, seen: set[int]) -> None:
        self._package, self._given, self._seen = package, frozenset(seen), seen

    def of(self, code: Any) -> Iterator[str]:
        """Yield texts for a function or class, and for what it uses."""
        yield from self._of("", code)

    def inside(self, code: Any) -> Iterator[str]:
        """Yield texts for what a function or class uses."""
        code = unwrapped(code)
        if isinstance(code, type):
            for name, value in sorted(vars(code).items()):
                function = unwrapped(value)
                if isinstance(function, FunctionType):
                    yield from self._used_by(function)
                elif not name.startswith("__") and name != "_parameters" and not _plain(value):
                    yield from self._of(name, value)
        elif isinstance(code, FunctionType):
            yield from self._used_by(code)
        else:
            yield from self._of("", code)

    def _used_by(self, function: FunctionType) -> Iterator[str]:
        if _written_by_dataclass(function):
            return
        # A library's wrapper around a function of the user's has this function in a closure cell.
        for code in _codes(function.__code__) if self._is_users(_home(function)) else ():
            for name in sorted(_global_names(code)):
                value = function.__globals__.get(name)
                if isinstance(value, ModuleType):
                    yield from self._of_module(value, code)
                elif name in function.__globals__ and not name.startswith("__"):
                    yield from self._of(name, value)
        for value in _held(function):
            if not (_plain(value) or hasattr(value, "tobytes")):
                yield from self._of(function.__qualname__, value)

    def _of_module(self, module: ModuleType, code: CodeType) -> Iterator[str]:
        """Yield texts for the attributes that code takes from a module of the user's."""
        if self._is_users(module.__name__):
            for name in sorted({*code.co_names} & vars(module).keys()):
                if not name.startswith("__"):
                    yield from self._of(name, vars(module)[name])

    def _of(self, name: str, value: Any) -> Iterator[str]:
        value = unwrapped(value)
        if isinstance(value, FunctionType | type):
            yield from self._of_code(name, value)
        elif isinstance(value, functools.partial):
            yield from self._of(name, (value.func, value.args, tuple(sorted(value.keywords.items()))))
        elif isinstance(value, Enum):
            yield f"{name} = {value.name}"
            yield from self._of_code(name, type(value))
        elif isinstance(value, PLAIN):
            yield f"{name} = {value!r}"
        elif isinstance(value, tuple):
            yield f"{name}: {len(value)}"
            for one in value:
                yield from self._of(name, one)
        elif isinstance(value, frozenset):
            yield from sorted(f"{name} has {one!r}" for one in value if isinstance(one, PLAIN))
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            yield f"{name} = {_array(value)}"
        else:
            yield from self._of_object(name, value)

    def _of_code(self, name: str, code: Any) -> Iterator[str]:
        if isinstance(code, FunctionType) and (_written_by_dataclass(code) or not self._is_users(_home(code))):
            if self._is_users(code.__module__) and id(code) not in self._seen:
                self._seen.add(id(code))
                yield from self.inside(code)
            return
        for one in code.__mro__ if isinstance(code, type) else [code]:
            if not self._is_users(one.__module__):
                continue
            if id(one) not in self._given:
                yield f"{name}: {one.__qualname__}"
            if id(one) not in self._seen:
                self._seen.add(id(one))
                yield from _code_of(one) if isinstance(one, type) else _function(one)
                yield from self.inside(one)

    def _of_object(self, name: str, value: Any) -> Iterator[str]:
        """Yield texts for an object's class, and for its values if it is immutable; others may be caches."""
        yield from self._of_code(name, type(value))
        held: dict[str, Any] = {}
        if isinstance(value, Part):
            held = dict(value.values())
        elif "__dataclass_params__" in vars(type(value)) and vars(type(value))["__dataclass_params__"].frozen:
            held = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        if held and id(value) not in self._seen:
            self._seen.add(id(value))
            yield f"{name}: a {type(value).__qualname__}"
            for key, one in held.items():
                yield from self._of(key, one)

    def _is_users(self, module: str | None) -> bool:
        """Whether the code of a module is the user's, as is that of modules not loaded here, sent by a process."""
        root = str(module or "builtins").partition(".")[0]
        if root in LIBRARIES:
            return False
        loaded = sys.modules.get(str(module)) or sys.modules.get(root)
        file = PurePath(getattr(loaded, "__file__", None) or "")
        return root == self._package or INSTALLED.isdisjoint(file.parts)


def unwrapped(value: Any) -> Any:
    """Return the function behind a property, a bound, static or class method, or a cache; else the value itself."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools.cached_property):
        return value.func
    if isinstance(value, staticmethod | classmethod | MethodType):
        return value.__func__
    return value.__wrapped__ if isinstance(value, functools._lru_cache_wrapper) else value


def _written_by_dataclass(function: FunctionType) -> bool:
    return function.__code__.co_filename == "<string>"


def _home(function: FunctionType) -> str:
    """Return the module that a function's code is in, which `__module__` may not give."""
    return str(function.__globals__.get("__name__", function.__module__))


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _plain(value: Any) -> bool:
    """Whether a value's repr describes it in full and is the same in every process."""
    return all(map(_plain, value)) if isinstance(value, tuple | frozenset) else isinstance(value, PLAIN)


def _array(value: Any) -> str:
    """Return a text for a numpy array or a tensor: type, shape and hash."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        value = value.numpy()
    return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _global_names(code: CodeType) -> set[str]:
    """Return the names of globals that code uses; `co_names` also contains attributes."""
    return {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}


def _code_of(kind: type) -> Iterator[str]:
    yield kind.__qualname__
    for name, value in sorted(vars(kind).items()):
        value = unwrapped(value)
        code = getattr(value, "__code__", None)
        if isinstance(code, CodeType):
            if code.co_filename != "<string>":  # methods generated by dataclasses
                yield name
                yield from _function(value)
        elif (
            isinstance(value, bool | int | float | str | tuple | frozenset)
            and not name.startswith("__")
            and (name == "_parameters" or _plain(value))
        ):
            yield f"{name} = {sorted(map(repr, value)) if isinstance(value, frozenset) else value!r}"


def _function(function: Any) -> Iterator[str]:
    """Yield texts for a function's code, defaults and closure: values of numbers, texts and arrays, else the type."""
    yield from _instructions(function.__code__)
    for value in _held(function):
        if hasattr(value, "tobytes"):
            yield hashlib.sha256(value.tobytes()).hexdigest()
        else:
            plain = value is None or isinstance(value, bool | int | float | str)
            yield repr(value) if plain else type(value).__qualname__


def _held(function: Any) -> list[Any]:
    """Return a function's default values and the contents of its closure cells."""
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # the cell is still empty
            continue
    return values


def _instructions(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def own_parts(settings: Any) -> dict[str, Part]:
    """Return the user-defined parts in the settings, by dotted key."""
    return {key: part for key, part in parts_of(settings).items() if is_own(part)}


def parts_of(settings: Any) -> dict[str, Part]:
    """Return the parts that the settings contain as objects, or name and that are not built in, by dotted key."""
    found: dict[str, Part] = {}
    for section, value in dict(settings).items():
        if isinstance(value, Part):
            found[section] = value
        else:
            found |= {f"{section}.{key}": part for key, part in parts_held(value)}
    return found


def parts_held(section: Any) -> Iterator[tuple[str, Part]]:
    """Yield (key, part) for the parts that a section contains as objects, or names and that are not built in."""
    for key, value in dict(section).items():
        slots = [one for one in type(section).model_fields[key].metadata if hasattr(one, "held_by_name")]
        if isinstance(value, Part):
            yield key, value
        elif slots and slots[0].held_by_name(value):
            yield key, slots[0].of(section)
