"""Averages over seeds, as tables for the terminal and as plain data for JSON. Neither contains timings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.averages import Average, average, bounds_of, epsilon_of_seeds
from airfl.analysis.results.equal_cost import COSTS, compare_at, costs_to, reached
from airfl.analysis.results.result import Group, Results, cell, short
from airfl.core.summary import Summary
from airfl.errors import UserError, unknown_name
from airfl.report.table import COLUMNS, TableRow, cells, mark, notes, shown
from airfl.report.terminal import folded, new_table
from airfl.runtime.numbers import figure, scientific

if TYPE_CHECKING:
    from rich.table import Table

FIGURES = tuple(field.name for field in fields(Summary) if field.type in ("float", "int") and field.name != "seed")
"""The numeric fields of a summary, which are averaged over seeds."""
BEST_FIRST = ("test_accuracy", "best_accuracy")


def averages(group: Group) -> dict[str, Average]:
    """Return the average of each figure of the summary over the seeds of the group."""
    summaries = [run.digest.summary for run in group.runs]
    return {
        name: average([float(getattr(summary, name)) for summary in summaries], bounds_of(name)) for name in FIGURES
    }


def ordered(results: Results, by: str | None) -> list[Group]:
    """Return the groups, sorted by a swept key or a figure if `by` is given.

    Accuracy is sorted in descending order, everything else in ascending order, with nan last. Raises UserError for an
    unknown name.
    """
    groups = list(results.groups)
    if by is None:
        return groups
    keys = {short(key, results.axes): key for key in results.axes} | {key: key for key in results.axes}
    if by in keys:
        return sorted(groups, key=lambda group: _sortable(group.values.get(keys[by])))
    if by not in FIGURES:
        raise UserError(unknown_name("--sort", by, [*keys, *FIGURES]))
    sign = -1 if by in BEST_FIRST else 1
    values = {id(group): _of_seeds(averages(group)[by], by) for group in groups}
    return sorted(groups, key=lambda group: (math.isnan(values[id(group)]), sign * values[id(group)]))


def _of_seeds(one: Average, by: str) -> float:
    """Return the mean of a figure, or what bounds every seed's epsilon, as tables show it."""
    return float(epsilon_of_seeds(by, one.values)) if by.startswith("epsilon") and one.values else one.mean


def plain_results(
    results: Results, by: str | None = None, budgets: Mapping[str, float] | None = None, target: float | None = None
) -> dict[str, Any]:
    """Convert results to plain data for JSON.

    Args:
        results: The results.
        by: Key to sort the groups by, as in `ordered`.
        budgets: Cost -> budget at which accuracies are compared.
        target: Accuracy, from 0 to 1, whose cost is computed.

    Returns:
        The axes, the groups with mean, deviation and interval of each figure, failed and missing points, unreadable
        runs, and the points that processes with --shard run now. Each epsilon has `holds` as well, which bounds every
        seed's, see `epsilon_of_seeds`.
    """
    plain: dict[str, Any] = {
        "axes": list(results.axes),
        "groups": [_plain_group(group, budgets or {}, target) for group in ordered(results, by)],
        "failed": dict(results.failed),
        "missing": results.missing,
        "unreadable": dict(results.unreadable),
        "running": dict(results.running),
    }
    if budgets:
        plain["at"] = dict(budgets)
    if target is not None:
        plain["target"] = target
    return plain


def _plain_group(group: Group, budgets: Mapping[str, float], target: float | None) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": group.name,
        "label": group.label,
        "values": dict(group.values),
        "scheme": group.scheme,
        "link": group.link,
        "seeds": [run.seed for run in group.runs],
        "statuses": [run.digest.summary.status for run in group.runs],
        "figures": {name: _plain_figure(name, one) for name, one in averages(group).items()},
    }
    if budgets:
        plain["accuracy_at"] = {
            cost: plain_average(compare_at([group], cost, budget)[0]) for cost, budget in budgets.items()
        }
    if target is not None:
        plain["cost_to"] = {cost: plain_average(one) for cost, one in costs_to([group], target)[0].items()}
        plain["reached"] = reached(group, target)
    return plain


def _plain_figure(name: str, one: Average) -> dict[str, float | list[float]]:
    """Convert the average of a figure, and for an epsilon what bounds every seed's."""
    plain = plain_average(one)
    return {**plain, "holds": _of_seeds(one, name)} if name.startswith("epsilon") else plain


def plain_average(one: Average) -> dict[str, float | list[float]]:
    """Convert an average to plain data for JSON."""
    ends = {"mean": one.mean, "deviation": one.deviation, "low": one.low, "high": one.high}
    return {**ends, "values": list(one.values)}


def results_table(results: Results, title: str, by: str | None = None) -> Table:
    """Return a table with a row per group: swept values, seeds, and the columns of a comparison.

    Accuracies have 95% confidence intervals.
    """
    groups = ordered(results, by)
    rows = [TableRow(group.name, [run.digest.summary for run in group.runs]) for group in groups]
    columns = shown(rows)
    table = new_table(title, _caption(rows))
    for heading in (*_headings(results), "seeds"):
        table.add_column(heading)
    for column in columns:
        table.add_column(folded(column.heading), justify="right")
    for group, row in zip(groups, rows, strict=True):
        texts = cells(row, columns, rows)[1:]
        interval = averages(group)["test_accuracy"]
        if columns and columns[0] is COLUMNS[0] and not math.isnan(interval.low):
            texts[0] += f" ({_percent(interval.low)} to {_percent(interval.high)})"
        table.add_row(*_identifiers(results, group), str(len(group.runs)), *texts)
    return table


def equal_table(results: Results, budgets: dict[str, float], by: str | None = None) -> Table:
    """Return a table of the accuracy of each group at these budgets, cost -> budget."""
    groups = ordered(results, by)
    table = new_table(
        "accuracy % at equal cost",
        "at the last evaluation within the budget; - if the first evaluation exceeds it (give a larger budget by "
        "--at COST=VALUE, or a smaller run.evaluate_every), or the run ended well below it (give a smaller budget)",
    )
    for heading in _headings(results):
        table.add_column(heading)
    for cost, budget in budgets.items():
        table.add_column(folded(f"{COSTS[cost]} = {_amount(cost, budget)}"), justify="right")
    columns = [compare_at(groups, cost, budget) for cost, budget in budgets.items()]
    for index, group in enumerate(groups):
        table.add_row(*_identifiers(results, group), *(_accuracy(column[index]) for column in columns))
    return table


def target_table(results: Results, accuracy: float, by: str | None = None) -> Table:
    """Return a table of the costs at which each group first reaches an accuracy, from 0 to 1."""
    groups = ordered(results, by)
    table = new_table(
        f"cost to reach an accuracy of {100 * accuracy:g}%", "mean over seeds; - unless all seeds reach it"
    )
    for heading in (*_headings(results), "seeds that do"):
        table.add_column(heading)
    for heading in COSTS.values():
        table.add_column(folded(heading), justify="right")
    for group, costs in zip(groups, costs_to(groups, accuracy), strict=True):
        amounts = ["-" if math.isinf(one.mean) else _amount(cost, one.mean) for cost, one in costs.items()]
        table.add_row(*_identifiers(results, group), f"{reached(group, accuracy)} of {len(group.runs)}", *amounts)
    return table


def _headings(results: Results) -> list[str]:
    """Return the headings that identify a group: the label, if there are any, and the swept keys; else the scheme."""
    labelled = ["row"] if any(run.label for run in results.runs) else []
    return [*labelled, *(short(key, results.axes) for key in results.axes)] or ["scheme"]


def _identifiers(results: Results, group: Group) -> list[str]:
    labelled = [group.label] if any(run.label for run in results.runs) else []
    texts = [*labelled, *(cell(group.values.get(key)) for key in results.axes)] or [group.scheme]
    return [f"{texts[0]}{mark([run.digest.summary for run in group.runs])}", *texts[1:]]


def _caption(rows: Sequence[TableRow]) -> str:
    return notes(rows).replace("± standard deviation", "± standard deviation (95% interval of the mean)")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _accuracy(one: Average) -> str:
    if math.isnan(one.mean):
        return "-"
    if one.points or math.isnan(one.deviation):
        return one.written(_percent)
    return f"{_percent(one.mean)} ± {_percent(one.deviation)}"


def _amount(cost: str, value: float) -> str:
    if cost == "uplink_bits" and not value:
        return "-"
    write: Callable[[float], str] = figure if cost in ("rounds", "air_time_s") else scientific
    return write(value)


def _sortable(value: Any) -> tuple[int, float, str]:
    """Return a sort key: numbers first, in ascending order, then everything else as text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, 0.0, cell(value))
