"""Tables of the page, sorted by a click on a heading: numbers as numbers, with what is not known at the end.

Spreadsheets open such tables, and compute what they take for formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airfl.analysis.results.averages import Average
from airfl.analysis.results.result import Group, cell, number_of
from airfl.report.page.view import View, exactly
from airfl.report.table import Column, mark
from airfl.runtime.text import inert


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What is shown.
        value: What it is sorted by: a number in full (repr), or text.
        title: What is said on hovering, "" for nothing.
        where: What is shown below it where the screen is narrow, "" for nothing.
    """

    text: str
    value: float | str
    title: str = ""
    where: str = ""

    @property
    def shown(self) -> str:
        """The text, which no spreadsheet computes; numbers are what they are, also those below 0."""
        return inert(self.text) if isinstance(self.value, str) else self.text


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes:
        name: Its id in the page.
        caption: What it is of, for screen readers.
        headings: One a column.
        rows: One cell a column each.
    """

    name: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def kinds(self) -> list[str]:
        """How each column is sorted: as numbers where it holds nothing else, but for the first."""
        columns = range(1, len(self.headings))
        numbers = [all(isinstance(row[column].value, float) for row in self.rows) for column in columns]
        return ["text", *("number" if one else "text" for one in numbers)]


def number(average: Average, column: Column) -> Cell:
    """A mean and its interval, written as in the terminal; the figure in full on hovering."""
    text = average.written(column.write) if column.scatter else column.write(average.mean)
    return Cell(text, average.mean, exactly(average))


def setting(value: object) -> Cell:
    """A swept value; empty, and sorted as what is not known, where the group has none."""
    text, found = cell(value), number_of(value)
    return Cell(text, found if found == found or value is None else text)


def name_of(view: View, group: Group) -> Cell:
    """A group as the first cell of its row: on narrow screens with its swept values, which scroll away there."""
    status = mark([run.digest.summary for run in group.runs])
    kind = f"{view.kind(group)}{status}"
    return Cell(kind, kind, f"{view.name(group)}{status}", view.where(group))
