"""What `airfl tune` chose, as a table and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airfl.report.results import plain_average
from airfl.report.terminal import folded, new_table
from airfl.results.averages import Average
from airfl.results.collect import plain, short
from airfl.sweeps.tuning import Chosen

if TYPE_CHECKING:
    from rich.table import Table


def tuned_table(found: Sequence[Chosen], title: str) -> Table:
    """A line a row: chosen values, how many were tried, validation accuracy, test accuracy."""
    caption = (
        "Mean over seeds ± standard deviation (95% interval of the mean). Chosen by validation accuracy; test accuracy "
        "is of the chosen values alone."
    )
    table = new_table(title, caption)
    keys = list(found[0].values)
    table.add_column("row")
    for heading in (*(short(key, keys) for key in keys), "settings tried", "validation accuracy %", "test accuracy %"):
        table.add_column(folded(heading), justify="right")
    for one in found:
        values = [plain(value) for value in one.values.values()]
        table.add_row(one.row.label or "-", *values, str(one.tried), _percent(one.validation), _percent(one.test))
    return table


def warnings(found: Sequence[Chosen]) -> list[str]:
    """Where a better value may lie outside what was tried."""
    return [
        f"{one.row.label or 'chosen'}: {key} = {plain(one.values[key])} is at the edge of what was tried; try more"
        for one in found
        for key in one.edges
    ]


def plain_tuning(found: Sequence[Chosen]) -> list[dict[str, Any]]:
    """For JSON."""
    return [
        {
            "label": one.row.label,
            "row": dict(one.row.changes),
            "chosen": dict(one.values),
            "tried": one.tried,
            "validation_accuracy": plain_average(one.validation),
            "test_accuracy": plain_average(one.test),
            "at_the_edge": list(one.edges),
        }
        for one in found
    ]


def _percent(one: Average) -> str:
    if math.isnan(one.low):
        return one.written(lambda share: f"{100 * share:.1f}")
    return f"{100 * one.mean:.1f} ± {100 * one.deviation:.1f} ({100 * one.low:.1f} to {100 * one.high:.1f})"
