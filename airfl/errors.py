"""Errors that are told in one line: the user's (exit code 2), and the machine's or the network's (exit code 1)."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user gave cannot be used. One line: what was given, what is allowed, how to mend it."""


class MachineError(Exception):
    """Something the machine or the network did not do. One line: what, where, what may help."""


def nearest(given: str, allowed: Iterable[str]) -> str:
    """'; did you mean X?' for the closest allowed name, else nothing."""
    close = difflib.get_close_matches(given, list(allowed), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def unknown_name(what: str, given: str, allowed: Iterable[str]) -> str:
    """One line for a name that is in no table: what was given, the nearest match, what there is."""
    names = sorted(allowed)
    return f"{what}: there is no {given!r}{nearest(given, names)} (allowed: {', '.join(names)})"
