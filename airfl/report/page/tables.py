"""Tables of the page. A click on a heading sorts them: numbers by value, with unknown values at the end.

Text is made inert, since spreadsheets that open such tables evaluate whatever looks like a formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airfl.analysis.results.averages import Average
from airfl.analysis.results.result import Group, cell, number_of
from airfl.report.page.view import PageView, exactly
from airfl.report.table import Column, mark
from airfl.runtime.text import inert


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What is shown.
        value: What it is sorted by: a number in full (repr), or text.
        title: Hover text; "" for none.
        where: Text shown below it on narrow screens; "" for none.
    """

    text: str
    value: float | str
    title: str = ""
    where: str = ""

    @property
    def shown(self) -> str:
        """The text, made inert for spreadsheets; numbers are unchanged, including negative ones."""
        return inert(self.text) if isinstance(self.value, str) else self.text


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes:
        name: Its id in the page.
        caption: What it is of, for screen readers.
        headings: One per column.
        rows: Rows with one cell per column.
    """

    name: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def kinds(self) -> list[str]:
        """How each column is sorted: by value if it holds only numbers and is not the first column."""
        columns = range(1, len(self.headings))
        numbers = [all(isinstance(row[column].value, float) for row in self.rows) for column in columns]
        return ["text", *("number" if one else "text" for one in numbers)]


def number(average: Average, column: Column) -> Cell:
    """Return the cell of a mean and its interval, formatted as in the terminal; the hover text has full precision. Of
    an epsilon it is what bounds that of every seed."""
    if column.bounds_seeds:
        bound = column.of_seeds(average.values)[0] if average.values else average.mean
        of = f", of {average.count} seeds: {', '.join(map(repr, average.values))}" if average.count > 1 else ""
        return Cell(column.write(bound), bound, f"{bound!r}{of}")
    text = average.written(column.write) if column.scatter else column.write(average.mean)
    return Cell(text, average.mean, exactly(average))


def setting(value: object) -> Cell:
    """Return the cell of a swept value; if the group has none, it is empty and sorted as unknown."""
    text, found = cell(value), number_of(value)
    return Cell(text, found if found == found or value is None else text)


def name_of(view: PageView, group: Group) -> Cell:
    """Return the first cell of a group's row.

    On narrow screens it also shows the swept values, because their columns scroll away.
    """
    status = mark([run.digest.summary for run in group.runs])
    kind = f"{view.kind(group)}{status}"
    return Cell(kind, kind, f"{view.name(group)}{status}", view.where(group))
