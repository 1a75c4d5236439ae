"""Tables of the page, sorted by a click on a heading: numbers as numbers, with what is not known at the end.

Spreadsheets open such tables, and compute what they take for formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airfl.report.page.markup import Html, join, tag
from airfl.report.page.view import View, exactly, with_interval
from airfl.report.table import Column, mark
from airfl.results.averages import Average
from airfl.results.collect import Group, cell, number_of
from airfl.shown import inert


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What is shown.
        value: What it is sorted by: a number in full (repr), or text.
        title: What is said on hovering, "" for nothing.
        markup: HTML that is shown in the place of `text`, None for none.
    """

    text: str
    value: float | str
    title: str = ""
    markup: Html | None = None


def number(average: Average, column: Column) -> Cell:
    """A mean and its interval, written as in the terminal; the figure in full on hovering."""
    text = with_interval(average, column) if column.scatter else column.write(average.mean)
    return Cell(text, average.mean, exactly(average))


def setting(value: object) -> Cell:
    """A swept value; empty, and sorted as what is not known, where the group has none."""
    text, found = cell(value), number_of(value)
    return Cell(text, found if found == found or value is None else text)


def name_of(view: View, group: Group) -> Cell:
    """A group as the first cell of its row: on narrow screens with its swept values, which scroll away there."""
    status = mark([run.digest.summary for run in group.runs])
    kind, where = f"{view.kind(group)}{status}", view.where(group)
    shown = join(inert(kind), tag("span", where, class_="where") if where else "")
    return Cell(kind, kind, f"{view.name(group)}{status}", shown)


def _shown(cell: Cell) -> str:
    """Numbers are what they are, also those below 0."""
    if cell.markup is not None:
        return cell.markup
    return inert(cell.text) if isinstance(cell.value, str) else cell.text


def sortable(name: str, caption: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Html:
    """A table in a box that scrolls sideways; the first column stays. A column of numbers alone is sorted as such."""
    kinds = [
        "number" if column and all(isinstance(row[column].value, float) for row in rows) else "text"
        for column in range(len(headings))
    ]
    heads = [
        tag("th", tag("button", text, type="button"), scope="col", aria_sort="none", data_kind=kind)
        for text, kind in zip(headings, kinds, strict=True)
    ]
    lines = [
        tag(
            "tr",
            *(
                tag(
                    "td" if column else "th",
                    _shown(cell),
                    scope=None if column else "row",
                    class_="number" if kinds[column] == "number" else None,
                    data_value=cell.value,
                    title=cell.title or None,
                )
                for column, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines), id=name, class_="sortable")
    return tag("div", table, class_="scroll", role="region", aria_label=caption, tabindex="0")
