"""Makes text safe to print or write: labels and paths come from the user and may contain anything.

Control characters are escaped for terminals, formulas for spreadsheets, and characters that a stream cannot encode are
replaced, because an encoding error would end a command and lose its results.
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
"""Name of the error handler for codecs that replaces characters by those of `IN_ASCII`."""

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
"""ASCII replacements of characters that airfl prints. Any other character is escaped."""


def sayable(text: str, encoding: str | None) -> str:
    """Return the text without control characters other than line breaks, and in ASCII if the encoding lacks any."""
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
    """Let standard output and error replace characters that they cannot encode, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with suppress(OSError, ValueError):
                reconfigure(errors=ERRORS)


def brief(thing: object, **shown: object) -> str:
    """Return a short repr: the class and the given attributes, with numbers to six digits."""
    return f"{type(thing).__name__}({', '.join(f'{key}={_brief(value)}' for key, value in shown.items())})"


def _brief(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return repr(str(value) if isinstance(value, PurePath) else value)


def tell(text: str) -> None:
    """Print a line to standard error. Errors are ignored, as the stream may be closed."""
    with suppress(OSError, ValueError):
        print(sayable(text, getattr(sys.stderr, "encoding", None)), file=sys.stderr, flush=True)


class PlainFormatter(logging.Formatter):
    """The formatter of airfl's log."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record without control characters."""
        return sayable(super().format(record), getattr(sys.stderr, "encoding", None))


def sayable_table(table: Any, encoding: str | None) -> Any:
    """Apply `sayable` to all text in a table of Rich, in place, and return the table."""
    for column in table.columns:
        column.header = _cell(column.header, encoding)
        # Line breaks are escaped in cells, where they would look like two rows, but not in headings.
        column._cells = [_cell(escaped(cell) if isinstance(cell, str) else cell, encoding) for cell in column.cells]
    table.title, table.caption = _cell(table.title, encoding), _cell(table.caption, encoding)
    return table


def _cell(cell: Any, encoding: str | None) -> Any:
    return sayable(cell, encoding) if isinstance(cell, str) else cell


FORMULA = re.compile(r"(^|[;\t\r\n])(\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20]\s*\S)")
"""Where a spreadsheet would recognise a formula: at the start of a cell, or after another separator of cells."""


def inert(text: str) -> str:
    """Return the text for a spreadsheet: control characters are escaped, and an apostrophe marks formulas as text."""
    return text if _is_number(text) else escaped(FORMULA.sub(r"\1\2'", text))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def in_figure(label: str) -> str:
    """Return a label that Matplotlib draws literally.

    Dollar signs and control characters are escaped, and a space precedes a leading underscore, which would hide the
    label from legends.
    """
    shown = escaped(label).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
