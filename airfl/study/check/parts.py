"""Checks of parts of any kind."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence

from airfl.config.plugins import packed
from airfl.storage.fingerprint import fingerprint, is_own
from airfl.study.check.finding import Check
from channels.part import Part, parameters_of

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a part."""
    del overrides
    return [
        Check("name", "its name is lower case with hyphens, its parameters are described", lambda: declared(part)),
        Check("transport", "it can be sent to other processes, with its code and parameters", lambda: transport(part)),
    ]


def declared(part: Part) -> str | None:
    """Check the name, and the descriptions of parameters."""
    if not NAME.fullmatch(part.name):
        return f"the name must be lower case with hyphens, such as 'my-scheme', got {part.name!r}"
    silent = [one.name for one in parameters_of(type(part)) if not one.description.strip()]
    return f"the parameter {silent[0]} has no description" if silent else None


def transport(part: Part) -> str | None:
    """Serialise and deserialise the part as for the workers of a sweep, and compare."""
    there = pickle.loads(packed(part, [type(part)]))
    if there.values() != part.values():
        return f"was sent as {part!r}, but arrives as {there!r}"
    if is_own(part) and fingerprint(there) != fingerprint(part):
        return "arrives with different code"
    return None
