"""What a part of the user's own is, in a few characters: its class's code and its parameters.

A checkpoint and a trace keep it, so that a run is not gone on with by other code under the same name. It is computed
from the compiled code of the class and of those that it derives from, airfl's own left out, since files of notebooks
cannot be read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import CodeType
from typing import Any

from channels.part import Part

OURS = ("airfl.", "channels.")
DIGITS = 16


def is_own(part: Part) -> bool:
    """Whether a part is the user's, or holds a function of the user's, and is not one that comes with the package."""
    return not type(part).__module__.startswith(OURS) or bool(functions_of(part))


def functions_of(part: Part) -> list[Any]:
    """The functions, and other things to be called, among its parameters."""
    return [value for value in part.values().values() if callable(value)]


def fingerprint(part: Part) -> str:
    """Of the code of its class and of its parameters; equal in every process that runs the same Python."""
    plain = {key: value for key, value in part.values().items() if not callable(value)}
    found = hashlib.sha256(f"{type(part).__qualname__}({plain!r})".encode())
    for one in functions_of(part):
        called = one if hasattr(one, "__code__") else type(one).__call__
        for text in _function(called) if hasattr(called, "__code__") else (repr(type(one)),):
            found.update(text.encode() + b"\0")
    for one in type(part).__mro__:
        if not one.__module__.startswith((*OURS, "builtins", "abc", "typing")):
            for text in _code_of(one):
                found.update(text.encode() + b"\0")
    return found.hexdigest()[:DIGITS]


def _code_of(kind: type) -> Iterator[str]:
    yield kind.__qualname__
    for name, value in sorted(vars(kind).items()):
        value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        code = getattr(value, "__code__", None)
        if isinstance(code, CodeType):
            if code.co_filename != "<string>":  # what dataclasses write themselves
                yield name
                yield from _function(value)
        elif isinstance(value, bool | int | float | str | tuple | frozenset) and not name.startswith("__"):
            yield f"{name} = {sorted(map(repr, value)) if isinstance(value, frozenset) else value!r}"


def _function(function: Any) -> Iterator[str]:
    """Its code, its defaults, and what it has from around it: numbers, texts and arrays as they are, else the kind."""
    yield from _instructions(function.__code__)
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not there yet
            continue
    for value in held:
        if hasattr(value, "tobytes"):
            yield hashlib.sha256(value.tobytes()).hexdigest()
        else:
            plain = value is None or isinstance(value, bool | int | float | str)
            yield repr(value) if plain else type(value).__qualname__


def _instructions(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def own_parts(settings: Any) -> dict[str, Part]:
    """The user's own parts of some settings, by dotted key."""
    found: dict[str, Part] = {}
    for section, value in dict(settings).items():
        if isinstance(value, Part):
            found[section] = value
        else:
            found |= {f"{section}.{key}": part for key, part in parts_held(value)}
    return {key: part for key, part in found.items() if is_own(part)}


def parts_held(section: Any) -> Iterator[tuple[str, Part]]:
    """(key, part) of what a section holds as an object, or by a name that is not of this package."""
    for key, value in dict(section).items():
        slots = [one for one in type(section).model_fields[key].metadata if hasattr(one, "held_by_name")]
        if isinstance(value, Part):
            yield key, value
        elif slots and slots[0].held_by_name(value):
            yield key, slots[0].of(section)
