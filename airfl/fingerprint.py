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
        code = getattr(one, "__code__", None) or getattr(type(one).__call__, "__code__", None)
        for text in _instructions(code) if code else (repr(type(one)),):
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
                yield from _instructions(code)
        elif isinstance(value, bool | int | float | str | tuple | frozenset) and not name.startswith("__"):
            yield f"{name} = {sorted(map(repr, value)) if isinstance(value, frozenset) else value!r}"


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
            found |= {f"{section}.{key}": one for key, one in dict(value).items() if isinstance(one, Part)}
    return {key: part for key, part in found.items() if is_own(part)}
