"""Generated docstrings and constructor errors of parts.

Both are made from the parameter declarations, so that user-defined parts have them too.
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
    """Append an "Args:" section to a part's docstring, with the type, bounds and default of each parameter."""
    lines = [_line(one) for one in dataclasses.fields(part) if one.metadata]
    text = inspect.cleandoc(part.__dict__.get("__doc__") or "")
    if lines:
        part.__doc__ = "\n".join([text, "", "Args:", *lines])


def _line(field: dataclasses.Field[Any]) -> str:
    declared = field.metadata
    kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    bounds = " and ".join(f"{words} {declared[key]:g}" for key, words in BOUNDS.items() if declared[key] is not None)
    also = " or ".join(f"{value:g}" for value in declared["also"])
    phrases = [declared["description"]]
    if declared["unit"]:
        phrases.append(f"in {declared['unit']}")
    if bounds or also:
        phrases.append(" or ".join(filter(None, [bounds, also])))
    if field.default is not None or "default" not in declared["description"]:  # the description explains a None
        phrases.append("required" if field.default is dataclasses.MISSING else f"default {field.default!r}")
    return f"    {field.name} ({kind}): {'; '.join(one.rstrip('.') for one in phrases)}."


def by_name(part: type, error: Callable[[str, str | None], Exception]) -> Callable[..., None]:
    """Wrap the part's `__init__` so that wrong arguments raise `error(message, parameter)`."""
    init: Callable[..., None] = part.__init__  # type: ignore[misc]
    fields = {one.name: one for one in dataclasses.fields(part) if one.init}
    needed = [name for name, one in fields.items() if one.default is one.default_factory is dataclasses.MISSING]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **values: Any) -> None:
        known = ", ".join(fields) or "none"
        if args:
            raise error(f"parameters of {part.__name__} are keyword-only ({known}), got {args[0]!r}", None)
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
