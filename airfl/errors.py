"""Errors with messages of one line.

The command line exits with code 2 for errors of the user, 1 for errors of the machine or network, and 130 for a run
that was interrupted.
"""

from collections.abc import Iterable

from channels.part import nearest as nearest
from channels.part import shown_value as shown_value

MOST_CHARACTERS = 1500


class UserError(Exception):
    """Raised if user input is invalid. The message says what was given, what is allowed, and how to fix it."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class MachineError(Exception):
    """Raised if the machine or the network fails. The message says what failed, where, and what may help."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class NotReproducedError(MachineError):
    """Raised if repeated runs differ from those of their bundle. The message names a run and a variable."""


def one_line(message: str) -> str:
    """Return a message as one line that is safe to print, since it may quote arbitrary input.

    Control characters are escaped. A very long message is shortened in the middle: its start says where the error is,
    its end how to fix it.
    """
    if len(message) > MOST_CHARACTERS:
        half = MOST_CHARACTERS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    return escaped(message)


def escaped(text: str) -> str:
    """Return the text with control and other non-printable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class AlignmentError(UserError):
    """Raised if power.alignment asks for a beta that does not exist with these settings."""


class DivergedError(UserError):
    """Raised if values of a run are not finite. The message names the round, the device if any, and what may help."""


class CallbackError(UserError):
    """Raised if a callback raises, with that error as its cause. The message says which, where, and how to resume."""


class RunInterruptedError(Exception):
    """Raised if a run was interrupted and has stopped after a round. The message says which, and how to resume."""


def unknown_name(what: str, given: str, allowed: Iterable[str]) -> str:
    """Return the message for an unknown name: what was given, the nearest match, and the allowed names."""
    names = sorted(allowed)
    return f"{what}: unknown value {given!r}{nearest(given, names)} (allowed: {', '.join(names)})"
