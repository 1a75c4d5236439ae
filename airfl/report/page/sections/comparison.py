"""The table of the comparison, with a row per group."""

from __future__ import annotations

from typing import Any

from airfl.analysis.results.averages import average, bounds_of
from airfl.report.page.tables import Cell, Table, name_of, number, setting
from airfl.report.page.view import PageView
from airfl.report.table import TableRow, figures_of, notes, shown, untuned

AVERAGED = (
    "Mean over the seeds, ± half of the mean's 95% interval, or both ends where one is cut to what is possible; of two "
    "seeds both values; of ε the largest, and where it is what is attained at least, the least. "
)
LONG = 700  # notes with more characters are folded


def comparison(view: PageView) -> dict[str, Any]:
    """Return the table of the terminal, with the swept values and the 95% intervals, and its notes."""
    columns = shown(view.rows)
    headings = ["group", *(view.short(key) for key in view.axes), "seeds", *(column.heading for column in columns)]
    lines = [
        [
            name_of(view, group),
            *(setting(group.values.get(key)) for key in view.axes),
            Cell(str(len(group.runs)), float(len(group.runs))),
            *(number(average(figures_of(row, view.rows, column), bounds_of(column.key)), column) for column in columns),
        ]
        for group, row in zip(view.groups, view.rows, strict=True)
    ]
    named = [TableRow(view.name(group), row.runs) for group, row in zip(view.groups, view.rows, strict=True)]
    said = notes(named, over_seeds=False).replace(untuned(named), "")  # already at the top of the page
    averaged = AVERAGED if len(view.results.runs) > len(lines) else ""
    return {
        "table": Table("comparison-table", "comparison", headings, lines),
        "notes": averaged + said,
        "folded": len(said) > LONG,
    }
