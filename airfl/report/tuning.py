"""What `airfl tune` chose, as a table and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airfl.report.results import plain_average
from airfl.report.terminal import folded, new_table
from airfl.results.averages import Average
from airfl.results.collect import plain, short
from airfl.sweeps.tuning import Chosen, Figure

if TYPE_CHECKING:
    from rich.table import Table


def tuned_table(found: Sequence[Chosen], title: str) -> Table:
    """A line a row: chosen values, how many were tried, what they were chosen by, and the same of the test set."""
    by = found[0].by
    what = by.name if by.lowest else f"{by.name} %"
    caption = (
        f"Mean over seeds ± standard deviation (95% interval of the mean). Chosen by {'least ' * by.lowest}validation "
        f"{by.name}; test {by.name} is of the chosen values alone."
    )
    table = new_table(title, caption)
    keys = list(found[0].values)
    table.add_column("row")
    for heading in (*(short(key, keys) for key in keys), "settings tried", f"validation {what}", f"test {what}"):
        table.add_column(folded(heading), justify="right")
    for one in found:
        values = [plain(value) for value in one.values.values()]
        figures = [_written(average, by) for average in (one.validation, one.test)]
        table.add_row(one.row.label or "-", *values, str(one.tried), *figures)
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
            f"validation_{one.by.name}": plain_average(one.validation),
            f"test_{one.by.name}": plain_average(one.test),
            "at_the_edge": list(one.edges),
        }
        for one in found
    ]


def _written(one: Average, by: Figure) -> str:
    """Accuracies in percent, losses as they are."""

    def write(value: float) -> str:
        return f"{value:.4g}" if by.lowest else f"{100 * value:.1f}"

    if math.isnan(one.low):
        return one.written(write)
    return f"{write(one.mean)} ± {write(one.deviation)} ({write(one.low)} to {write(one.high)})"
