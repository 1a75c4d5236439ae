"""Tables in HTML, which notebooks show in place of the repr of an object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from airfl.errors import escaped

MOST_ROWS = 60
"""Rows of a table in a notebook; what is left out is counted below it."""


def html_table(caption: str, rows: Iterable[Sequence[object]], headings: Sequence[str] = ()) -> str:
    """Return a table without a style of its own, so that it is readable on light and dark pages.

    Args:
        caption: The text above it.
        rows: The cells of every row. Floats are shown with four significant digits, None as an empty cell.
        headings: Headings of the columns; without them, the first cell of every row is its heading.
    """
    every = list(rows)
    head = f"<thead><tr>{''.join(_cell(one, 'col') for one in headings)}</tr></thead>" if headings else ""
    body = "".join(
        f"<tr>{''.join(_cell(one, '' if headings or place else 'row') for place, one in enumerate(row))}</tr>"
        for row in every[:MOST_ROWS]
    )
    more = f"<p>and {len(every) - MOST_ROWS:,} more rows</p>" if len(every) > MOST_ROWS else ""
    return f"<table><caption>{safe(caption)}</caption>{head}<tbody>{body}</tbody></table>{more}"


def safe(value: object) -> str:
    """Return a value as text in HTML: labels and paths come from the user and may contain anything."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(escaped(str(value)))


def _cell(value: object, scope: str) -> str:
    """Return a cell; scope: "col" or "row" for a heading, which screen readers announce, else ""."""
    return f'<th scope="{scope}">{safe(value)}</th>' if scope else f"<td>{safe(value)}</td>"
