"""Errors with messages of one line.

The command line exits with code 2 for errors of the user, 1 for errors of the machine or network, and 130 for a run
that was interrupted.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from channels.part import nearest as nearest
from channels.part import shown_value as shown_value

MOST_CHARACTERS = 1500
OURS = tuple(f"{Path(__file__).parents[1] / name}/" for name in ("airfl", "channels"))
"""The folders of the code that is not the user's."""


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


@contextmanager
def one_line_errors(what: str) -> Iterator[None]:
    """Convert an error of user-defined code into a UserError of one line, with the file and line that raised it.

    Args:
        what: The part and its method, such as "stage Half: encode()".
    """
    try:
        yield
    except (UserError, MachineError, MemoryError):
        raise
    except Exception as error:
        # torch's own class for a full GPU, for which other code looks; torch may not have been imported.
        if type(error).__name__ == "OutOfMemoryError":
            raise
        said = " ".join(str(error).split())
        raise UserError(
            f"{what} raised {type(error).__name__}{f': {said}' if said else ''}{_place(error.__traceback__)}"
        ) from error


def comes_with_airfl(part: object) -> bool:
    """Whether the class of an object is one of airfl's, which the test suite checks; others are checked as they run."""
    return type(part).__module__.partition(".")[0] == __name__.partition(".")[0]


def described(value: object) -> str:
    """Describe what was returned, in a few words: "None", "a list", "float64 [3, 10]", "the class Half"."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    kind = type(value).__name__
    if shape is None or dtype is None:
        return f"{'an' if kind[:1].lower() in tuple('aeiou') else 'a'} {kind}"
    array = "a numpy array of " if kind == "ndarray" else ""
    return f"{array}{str(dtype).removeprefix('torch.')} {list(shape)}"


def _place(trace: TracebackType | None) -> str:
    """Return " (FILE, line N)" for the last line of the traceback in code of the user, "" if there is none."""
    place = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(OURS) and "site-packages" not in file:
            place = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
