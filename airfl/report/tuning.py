"""The result of `airfl tune`, as a table and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.averages import Average
from airfl.analysis.results.result import plain, short
from airfl.analysis.results.tuned import Chosen, Figure
from airfl.report.results import plain_average
from airfl.report.terminal import folded, new_table

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
    if pruned := sum(one.pruned for one in chosen):
        caption += f" Of the settings tried, {pruned} were ended early (pruned)."
    table = new_table(title, caption)
    keys = list(chosen[0].values)
    table.add_column("row")
    for heading in (*(short(key, keys) for key in keys), "settings tried", f"validation {metric}", f"test {metric}"):
        table.add_column(folded(heading), justify="right")
    for choice in chosen:
        values = [plain(value) for value in choice.values.values()]
        figures = [_format(average, by) for average in (choice.validation, choice.test)]
        table.add_row(choice.row.label or "-", *values, str(choice.tried), *figures)
    return table


def warnings(chosen: Sequence[Chosen]) -> list[str]:
    """Return a warning for each tuned value at the edge of its range, beyond which a better one may lie."""
    return [
        f"{choice.row.label or 'chosen'}: {key} = {plain(choice.values[key])} is at the edge of the tried range; "
        "extend it"
        for choice in chosen
        for key in choice.edges
    ]


def plain_tuning(chosen: Sequence[Chosen]) -> list[dict[str, Any]]:
    """Convert the result to plain data for JSON."""
    return [
        {
            "label": choice.row.label,
            "row": dict(choice.row.changes),
            "chosen": dict(choice.values),
            "tried": choice.tried,
            "pruned": choice.pruned,
            f"validation_{choice.by.name}": plain_average(choice.validation),
            f"test_{choice.by.name}": plain_average(choice.test),
            "at_the_edge": list(choice.edges),
        }
        for choice in chosen
    ]


def _format(average: Average, by: Figure) -> str:
    """Format an average: accuracies in percent, losses unchanged."""

    def write(value: float) -> str:
        return f"{value:.4g}" if by.lowest else f"{100 * value:.1f}"

    if math.isnan(average.low):
        return average.written(write)
    return f"{write(average.mean)} ± {write(average.deviation)} ({write(average.low)} to {write(average.high)})"
