"""Accuracy at equal cost, and the cost of reaching a target accuracy."""

from __future__ import annotations

import math
from typing import Any

from airfl.analysis.results.averages import Average
from airfl.analysis.results.equal_cost import common_budget, compare_at, costs_to, reached
from airfl.analysis.results.result import Group
from airfl.errors import UserError
from airfl.report.page.tables import Cell, Table, name_of, number, setting
from airfl.report.page.view import PageView, exactly
from airfl.report.table import COLUMNS, Column
from airfl.runtime.numbers import figure, scientific

ACCURACY = next(column for column in COLUMNS if column.key == "test_accuracy")
AT = {
    "rounds": "at {} rounds",
    "energy": "at energy {}",
    "resource_elements": "at {} resource elements",
    "air_time_s": "at {} s of air time",
    "uplink_bits": "at {} bits",
}
SHARE = 0.9  # target accuracy as a share of the best group's


def equal_cost(view: PageView) -> dict[str, Any]:
    """Return two tables: accuracy at common budgets, and costs of a target accuracy."""
    if not any(len(run.digest.course["rounds"]) for run in view.results.runs):
        return {}
    best = max((one.mean for one in view.accuracies if math.isfinite(one.mean)), default=math.nan)
    target = SHARE * best / 100
    table, unspent = _at_budgets(view)
    return {
        "at_budgets": table,
        "unspent": unspent,
        "share": SHARE,
        "target": target,
        "to_target": None if math.isnan(best) else _to_target(view, target),
    }


def _at_budgets(view: PageView) -> tuple[Table, list[str]]:
    """Return the table of accuracy at common budgets, and the costs that it leaves out."""
    budgets, left_out = {}, []
    for cost, title in view.costs.items():
        try:
            budgets[cost] = common_budget(view.groups, cost)
        except UserError:
            left_out.append(title)
    found = {cost: compare_at(view.groups, cost, budget) for cost, budget in budgets.items()}
    headings = [AT[cost].format(write(cost, budget)) for cost, budget in budgets.items()]
    lines = [
        [*_who(view, place), *(number(found[cost][place], ACCURACY) for cost in budgets)]
        for place in range(len(view.groups))
    ]
    return Table("at-budget-table", "accuracy at the same cost", [*_who_headings(view), *headings], lines), left_out


def _to_target(view: PageView, target: float) -> Table:
    costs = costs_to(view.groups, target)
    lines = [
        [
            *_who(view, place),
            Cell(f"{reached(group, target)} of {len(group.runs)}", float(reached(group, target))),
            *(_spent(group, cost, costs[place][cost]) for cost in view.costs),
        ]
        for place, group in enumerate(view.groups)
    ]
    headings = [*_who_headings(view), "seeds that do", *view.costs.values()]
    return Table("to-target-table", "cost of the target accuracy", headings, lines)


def write(cost: str, value: float) -> str:
    """Format a cost as the comparison does."""
    if cost == "rounds":
        return figure(value)
    column = _column(cost)
    return column.write(value) if column else scientific(value)


def _column(cost: str) -> Column | None:
    return next((column for column in COLUMNS if column.key == cost), None)


def _spent(group: Group, cost: str, average: Average) -> Cell:
    """Return the cell of a cost, with "-" if the group does not have that cost."""
    if not any(run.digest.course[cost][-1:].sum() > 0 for run in group.runs):
        return Cell("-", math.nan)
    return Cell(write(cost, average.mean), average.mean, exactly(average))


def _who_headings(view: PageView) -> list[str]:
    return ["group", *(view.short(key) for key in view.axes)]


def _who(view: PageView, place: int) -> list[Cell]:
    group = view.groups[place]
    return [name_of(view, group), *(setting(group.values.get(key)) for key in view.axes)]
