"""The result of `airfl tune`, as a table and as plain data."""

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


def tuned_table(chosen: Sequence[Chosen], title: str) -> Table:
    """Return a table with a line per row: tuned values, number of trials, validation and test metric."""
    by = chosen[0].by
    metric = by.name if by.lowest else f"{by.name} %"
    caption = (
        f"Mean over seeds ± standard deviation (95% interval of the mean). Selected by "
        f"{'lowest' if by.lowest else 'highest'} validation {by.name}; test {by.name} of the selected values only."
    )
    table = new_table(title, caption)
    keys = list(chosen[0].values)
    table.add_column("row")
    for heading in (*(short(key, keys) for key in keys), "settings tried", f"validation {metric}", f"test {metric}"):
        table.add_column(folded(heading), justify="right")
    for one in chosen:
        values = [plain(value) for value in one.values.values()]
        figures = [_format(average, by) for average in (one.validation, one.test)]
        table.add_row(one.row.label or "-", *values, str(one.tried), *figures)
    return table


def warnings(chosen: Sequence[Chosen]) -> list[str]:
    """Return a warning for each tuned value at the edge of its range, beyond which a better one may lie."""
    return [
        f"{one.row.label or 'chosen'}: {key} = {plain(one.values[key])} is at the edge of the tried range; extend it"
        for one in chosen
        for key in one.edges
    ]


def plain_tuning(chosen: Sequence[Chosen]) -> list[dict[str, Any]]:
    """Convert the result to plain data for JSON."""
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
        for one in chosen
    ]


def _format(one: Average, by: Figure) -> str:
    """Format an average: accuracies in percent, losses unchanged."""

    def write(value: float) -> str:
        return f"{value:.4g}" if by.lowest else f"{100 * value:.1f}"

    if math.isnan(one.low):
        return one.written(write)
    return f"{write(one.mean)} ± {write(one.deviation)} ({write(one.low)} to {write(one.high)})"
