"""Tables for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

HEADING_WIDTH = 10  # longer headings of numeric columns are wrapped
AT_BOUND = "without training, all updates at the norm bound"
"""Heading of the figures of a link budget."""


def new_table(title: str, caption: str | None = None) -> Table:
    """Create a table without columns."""
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", caption=caption, caption_justify="left", box=box.SIMPLE_HEAD)


def folded(heading: str) -> str:
    """Wrap the heading of a narrow column."""
    return textwrap.fill(heading, HEADING_WIDTH)


def two_columns(title: str, heading: str, lines: Iterable[tuple[str, str]], caption: str | None = None) -> Table:
    """Create a table of two columns, quantity and value; `heading` is that of the first column."""
    table = new_table(title, caption)
    table.add_column(heading)
    table.add_column("", justify="right")
    for name, text in lines:
        table.add_row(name, text)
    return table
