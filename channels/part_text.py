"""What a part says of itself to people: its docstring with a line for each parameter, and one line for a wrong one.

All of it is made from the declarations, so that a class of the user's own has it too.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

BOUNDS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def document(part: type) -> None:
    """Add the parameters to a part's docstring, as `help` and editors show it, each with type, bounds and default."""
    lines = [_line(one) for one in dataclasses.fields(part) if one.metadata]
    text = inspect.cleandoc(part.__dict__.get("__doc__") or "")
    if lines:
        part.__doc__ = "\n".join([text, "", "Args:", *lines])


def _line(of: dataclasses.Field[Any]) -> str:
    facts, kind = of.metadata, of.type if isinstance(of.type, str) else getattr(of.type, "__name__", str(of.type))
    bounds = " and ".join(f"{words} {facts[key]:g}" for key, words in BOUNDS.items() if facts[key] is not None)
    beside = " or ".join(f"{value:g}" for value in facts["also"])
    told = [facts["description"]]
    if facts["unit"]:
        told.append(f"in {facts['unit']}")
    if bounds or beside:
        told.append(" or ".join(filter(None, [bounds, beside])))
    if of.default is not None or "default" not in facts["description"]:  # which says what none stands for
        told.append("required" if of.default is dataclasses.MISSING else f"default {of.default!r}")
    return f"    {of.name} ({kind}): {'; '.join(one.rstrip('.') for one in told)}."


def by_name(part: type, error: Callable[[str, str | None], Exception]) -> Callable[..., None]:
    """The part's `__init__`, with `error`, of a message and a parameter, for arguments that do not fit."""
    init: Callable[..., None] = part.__init__  # type: ignore[misc]
    fields = {one.name: one for one in dataclasses.fields(part) if one.init}
    needed = [name for name, one in fields.items() if one.default is one.default_factory is dataclasses.MISSING]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **values: Any) -> None:
        known = ", ".join(fields) or "none"
        if args:
            raise error(f"parameters of {part.__name__} are given by name ({known}), got {args[0]!r}", None)
        for key in values:
            if key not in fields:
                close = difflib.get_close_matches(key, list(fields), n=1, cutoff=0.5)
                meant = f"; did you mean {close[0]}?" if close else ""
                raise error(f"{part.__name__} has no {key}{meant} (allowed: {known})", key)
        for key in needed:
            if key not in values:
                raise error(
                    f"{part.__name__} needs {key}: {fields[key].metadata.get('description', 'it is required')}", key
                )
        init(self, **values)

    return checked
