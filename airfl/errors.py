"""Errors that are told in one line: the user's (exit code 2), the machine's or the network's (exit code 1), and a run
that was asked to stop (exit code 130)."""

import difflib
from collections.abc import Iterable

MOST_CHARACTERS = 1500


class UserError(Exception):
    """Something the user gave cannot be used. One line: what was given, what is allowed, how to mend it."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class MachineError(Exception):
    """Something the machine or the network did not do. One line: what, where, what may help."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(message: str) -> str:
    """The message as one line that a terminal prints as it is: messages hold what was given, which may be anything.

    Control characters are escaped; of a very long one start and end are kept, which say where and how to mend it.
    """
    if len(message) > MOST_CHARACTERS:
        half = MOST_CHARACTERS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    return escaped(message)


def escaped(text: str) -> str:
    """The text with control characters, and all else that is not printed, as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class AlignmentError(UserError):
    """power.alignment asks for a beta that these settings have none of."""


class DivergedError(UserError):
    """Numbers of a run are no numbers any more. One line: round, device where it is one's, what may help."""


class CallbackError(UserError):
    """A callback has raised, which the cause says. One line: which callback, where, what; how to go on."""


class RunInterruptedError(Exception):
    """Somebody asked a run to stop, and it did after a round. One line: where it stands, how to go on."""


def nearest(given: str, allowed: Iterable[str]) -> str:
    """'; did you mean X?' for the closest allowed name, else nothing."""
    names = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(given.casefold(), list(names), n=1, cutoff=0.5)
    return f"; did you mean {names[close[0]]}?" if close else ""


def unknown_name(what: str, given: str, allowed: Iterable[str]) -> str:
    """One line for a name that is in no table: what was given, the nearest match, what there is."""
    names = sorted(allowed)
    return f"{what}: there is no {given!r}{nearest(given, names)} (allowed: {', '.join(names)})"
