"""Results over seeds as a table for the terminal and as plain data for JSON; no timings in either."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from airfl.errors import UserError, unknown_name
from airfl.report.numbers import figure, scientific
from airfl.report.summary import Summary
from airfl.report.table import COLUMNS, TableRow, cells, mark, notes, shown
from airfl.report.terminal import folded, new_table
from airfl.results.averages import Average, average, bounds_of
from airfl.results.collect import Group, Results, cell, short
from airfl.results.equal_cost import COSTS, compare_at, costs_to, reached

if TYPE_CHECKING:
    from rich.table import Table

FIGURES = tuple(field.name for field in fields(Summary) if field.type in ("float", "int") and field.name != "seed")
"""What is averaged over seeds: the numbers of a summary."""
BEST_FIRST = ("test_accuracy",)


def averages(group: Group) -> dict[str, Average]:
    """Every figure of the summary over the group's seeds."""
    summaries = [run.digest.summary for run in group.runs]
    return {
        name: average([float(getattr(summary, name)) for summary in summaries], bounds_of(name)) for name in FIGURES
    }


def ordered(results: Results, by: str | None) -> list[Group]:
    """The groups as they were asked for, or sorted by a swept key or a figure: accuracy from the best, others from the
    least, nan last. UserError for a name that is neither."""
    groups = list(results.groups)
    if by is None:
        return groups
    keys = {short(key, results.axes): key for key in results.axes} | {key: key for key in results.axes}
    if by in keys:
        return sorted(groups, key=lambda group: _sortable(group.values.get(keys[by])))
    if by not in FIGURES:
        raise UserError(unknown_name("--sort", by, [*keys, *FIGURES]))
    sign = -1 if by in BEST_FIRST else 1
    means = {id(group): averages(group)[by].mean for group in groups}
    return sorted(groups, key=lambda group: (math.isnan(means[id(group)]), sign * means[id(group)]))


def plain_results(
    results: Results, by: str | None = None, budgets: Mapping[str, float] | None = None, target: float | None = None
) -> dict[str, Any]:
    """For JSON: axes, groups with mean, deviation and interval of every figure, points that failed or are missing, runs
    that cannot be read; accuracy at the budgets, and the costs of a target accuracy, where they are asked for."""
    found: dict[str, Any] = {
        "axes": list(results.axes),
        "groups": [_plain_group(group, budgets or {}, target) for group in ordered(results, by)],
        "failed": dict(results.failed),
        "missing": results.missing,
        "unreadable": dict(results.unreadable),
    }
    if budgets:
        found["at"] = dict(budgets)
    if target is not None:
        found["target"] = target
    return found


def _plain_group(group: Group, budgets: Mapping[str, float], target: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": group.name,
        "label": group.label,
        "values": dict(group.values),
        "scheme": group.scheme,
        "link": group.link,
        "seeds": [run.seed for run in group.runs],
        "statuses": [run.digest.summary.status for run in group.runs],
        "figures": {name: plain_average(one) for name, one in averages(group).items()},
    }
    if budgets:
        found["accuracy_at"] = {
            cost: plain_average(compare_at([group], cost, budget)[0]) for cost, budget in budgets.items()
        }
    if target is not None:
        found["cost_to"] = {cost: plain_average(one) for cost, one in costs_to([group], target)[0].items()}
        found["reached"] = reached(group, target)
    return found


def plain_average(one: Average) -> dict[str, float | list[float]]:
    """For JSON."""
    ends = {"mean": one.mean, "deviation": one.deviation, "low": one.low, "high": one.high}
    return {**ends, "values": list(one.values)}


def results_table(results: Results, title: str, by: str | None = None) -> Table:
    """One line a group: swept values, seeds, the columns of a comparison; accuracy with its 95% interval."""
    groups = ordered(results, by)
    rows = [TableRow(group.name, [run.digest.summary for run in group.runs]) for group in groups]
    columns = shown(rows)
    table = new_table(title, _caption(rows))
    for heading in (*_heads(results), "seeds"):
        table.add_column(heading)
    for column in columns:
        table.add_column(folded(column.heading), justify="right")
    for group, row in zip(groups, rows, strict=True):
        texts = cells(row, columns, rows)[1:]
        interval = averages(group)["test_accuracy"]
        if columns and columns[0] is COLUMNS[0] and not math.isnan(interval.low):
            texts[0] += f" ({_percent(interval.low)} to {_percent(interval.high)})"
        table.add_row(*_who(results, group), str(len(group.runs)), *texts)
    return table


def equal_table(results: Results, budgets: dict[str, float], by: str | None = None) -> Table:
    """Accuracy of every group at these budgets, cost -> budget."""
    groups = ordered(results, by)
    table = new_table(
        "accuracy % at equal cost",
        "of the last evaluation that the budget pays for; - where there is none: take a larger one (--at COST=VALUE), "
        "or a smaller run.evaluate_every",
    )
    for heading in _heads(results):
        table.add_column(heading)
    for cost, budget in budgets.items():
        table.add_column(folded(f"{COSTS[cost]} = {_amount(cost, budget)}"), justify="right")
    found = [compare_at(groups, cost, budget) for cost, budget in budgets.items()]
    for place, group in enumerate(groups):
        table.add_row(*_who(results, group), *(_accuracy(column[place]) for column in found))
    return table


def target_table(results: Results, accuracy: float, by: str | None = None) -> Table:
    """What every group has spent when it first shows that accuracy, a share of 1."""
    groups = ordered(results, by)
    table = new_table(
        f"cost to reach an accuracy of {100 * accuracy:g}%", "mean over seeds; - where not all of them reach it"
    )
    for heading in (*_heads(results), "seeds that do"):
        table.add_column(heading)
    for heading in COSTS.values():
        table.add_column(folded(heading), justify="right")
    for group, costs in zip(groups, costs_to(groups, accuracy), strict=True):
        amounts = ["-" if math.isinf(one.mean) else _amount(cost, one.mean) for cost, one in costs.items()]
        table.add_row(*_who(results, group), f"{reached(group, accuracy)} of {len(group.runs)}", *amounts)
    return table


def _heads(results: Results) -> list[str]:
    """What tells groups apart: the label where any has one, the swept keys, else the scheme."""
    labelled = ["row"] if any(run.label for run in results.runs) else []
    return [*labelled, *(short(key, results.axes) for key in results.axes)] or ["scheme"]


def _who(results: Results, group: Group) -> list[str]:
    labelled = [group.label] if any(run.label for run in results.runs) else []
    who = [*labelled, *(cell(group.values.get(key)) for key in results.axes)] or [group.scheme]
    return [f"{who[0]}{mark([run.digest.summary for run in group.runs])}", *who[1:]]


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
    """Numbers first, by size; then everything else by its text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, 0.0, cell(value))
