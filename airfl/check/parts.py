"""What every part has to hold, of whatever kind."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence

from airfl.check.finding import Check
from airfl.fingerprint import fingerprint, is_own
from airfl.plugins import packed
from channels.part import Part, parameters_of

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one part."""
    del overrides
    return [
        Check("name", "its name is lower case with hyphens, its parameters are described", lambda: declared(part)),
        Check("transport", "it arrives in other processes, with its code and parameters", lambda: transport(part)),
    ]


def declared(part: Part) -> str | None:
    """Name and descriptions."""
    if not NAME.fullmatch(part.name):
        return f"the name {part.name!r} is not lower case with hyphens, such as 'my-scheme'"
    silent = [one.name for one in parameters_of(type(part)) if not one.description.strip()]
    return f"the parameter {silent[0]} has no description" if silent else None


def transport(part: Part) -> str | None:
    """As to the workers of a sweep."""
    there = pickle.loads(packed(part, [type(part)]))
    if there.values() != part.values():
        return f"arrives as {there!r}, was sent as {part!r}"
    if is_own(part) and fingerprint(there) != fingerprint(part):
        return "arrives with other code than it was sent with"
    return None
