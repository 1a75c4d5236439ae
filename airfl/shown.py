"""Text on its way to people: labels and paths hold what somebody gave, which may be anything.

No control character reaches a terminal, no formula a spreadsheet, and a stream that cannot say a sign is given another:
nothing that is printed may end a command, whose results would go with it.
"""

from __future__ import annotations

import codecs
import logging
import re
import sys
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from airfl.errors import escaped

ERRORS = "airfl-ascii"
"""The codecs' error handler that writes `IN_ASCII`."""

IN_ASCII = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "η": "eta",
    "θ": "theta",
    "κ": "kappa",
    "λ": "lambda",
    "μ": "mu",
    "σ": "sigma",
    "τ": "tau",
    "∞": "inf",
    "±": "+-",
    "×": "x",
    "·": "*",
    "²": "^2",
    "‖": "||",
    "√": "sqrt",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "→": "->",
    "−": "-",
    "–": "-",
    "—": "-",
    "…": "...",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
}
"""What stands for signs of ours where only ASCII can be written; any other is written as an escape."""


def sayable(text: str, encoding: str | None) -> str:
    """The text as a stream of this encoding can write it, without control characters; lines stay lines."""
    text = "\n".join(map(escaped, text.split("\n")))
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text.encode("ascii", ERRORS).decode("ascii")
    return text


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    written = (IN_ASCII.get(sign) or sign.encode("ascii", "backslashreplace").decode("ascii") for sign in signs)
    return "".join(written), error.end


codecs.register_error(ERRORS, _in_ascii)


def let_streams_fall_back() -> None:
    """What the two standard streams cannot encode is written in ASCII from now on, instead of ending the process."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with suppress(OSError, ValueError):
                reconfigure(errors=ERRORS)


def brief(thing: object, **told: object) -> str:
    """A repr in one short line: the class, and what tells it from others, numbers to six digits."""
    return f"{type(thing).__name__}({', '.join(f'{key}={_brief(value)}' for key, value in told.items())})"


def _brief(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return repr(str(value) if isinstance(value, PurePath) else value)


def tell(text: str) -> None:
    """A line on standard error. Where nobody hears it any more, that is no reason to stop."""
    with suppress(OSError, ValueError):
        print(sayable(text, getattr(sys.stderr, "encoding", None)), file=sys.stderr, flush=True)


class PlainFormatter(logging.Formatter):
    """Of the log."""

    def format(self, record: logging.LogRecord) -> str:
        """Without control characters."""
        return sayable(super().format(record), getattr(sys.stderr, "encoding", None))


def sayable_table(table: Any, encoding: str | None) -> Any:
    """A table of rich's with all its text made sayable; the same one."""
    for column in table.columns:
        column.header = _cell(column.header, encoding)
        # A heading may take several lines; a label that has one in it would look like two rows.
        column._cells = [_cell(escaped(cell) if isinstance(cell, str) else cell, encoding) for cell in column.cells]
    table.title, table.caption = _cell(table.title, encoding), _cell(table.caption, encoding)
    return table


def _cell(cell: Any, encoding: str | None) -> Any:
    return sayable(cell, encoding) if isinstance(cell, str) else cell


FORMULA = re.compile(r"(^|[;\t\r\n])(\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20]\s*\S)")
"""Where a spreadsheet would begin a formula: at the start of a cell, or of what another separator makes a cell of."""


def inert(text: str) -> str:
    """The text as a spreadsheet shows it, without control characters: what it would compute is marked as text, by an
    apostrophe. Numbers stay."""
    return text if _is_number(text) else escaped(FORMULA.sub(r"\1\2'", text))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def in_figure(label: str) -> str:
    """A label as matplotlib draws it as it stands: a dollar sign begins no formula, an underscore hides it from no
    legend, and what cannot be drawn is written as an escape."""
    shown = escaped(label).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
