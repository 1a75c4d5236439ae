"""Accuracy when all have spent the same, and the cost of reaching a target."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.report.numbers import figure, scientific
from airfl.report.page.markup import Html, join, paragraph, tag
from airfl.report.page.tables import Cell, name_of, number, setting, sortable
from airfl.report.page.view import View, exactly
from airfl.report.table import COLUMNS, Column
from airfl.results.averages import Average
from airfl.results.collect import Group
from airfl.results.equal_cost import common_budget, compare_at, costs_to, reached

ACCURACY = next(column for column in COLUMNS if column.key == "test_accuracy")
AT = {
    "rounds": "at {} rounds",
    "energy": "at energy {}",
    "resource_elements": "at {} resource elements",
    "air_time_s": "at {} s of air time",
    "uplink_bits": "at {} bits",
}
SHARE = 0.9  # of the best group's accuracy: the target


def equal_cost(view: View) -> Html:
    """Two tables: accuracy at common budgets, costs of a target accuracy."""
    if not any(len(run.digest.course["rounds"]) for run in view.results.runs):
        return Html("")
    return join(_at_budgets(view), _to_target(view))


def _at_budgets(view: View) -> Html:
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
    apart = "; a run has spent nothing of: " + ", ".join(left_out) if left_out else ""
    return join(
        tag("h3", "Accuracy (%) at the same cost"),
        paragraph(
            "Budgets: what every run has spent by its end, the ideal link's aside where there are others. The accuracy "
            f"is that of the last evaluation which a run can pay for; - where it cannot pay for the first{apart}.",
            class_="fine",
        ),
        sortable("at-budget-table", "accuracy at the same cost", [*_who_headings(view), *headings], lines),
    )


def _to_target(view: View) -> Html:
    best = max((one.mean for one in view.accuracies if math.isfinite(one.mean)), default=math.nan)
    if math.isnan(best):
        return Html("")
    target = SHARE * best / 100
    costs = costs_to(view.groups, target)
    lines = [
        [
            *_who(view, place),
            Cell(f"{reached(group, target)} of {len(group.runs)}", float(reached(group, target))),
            *(_spent(group, cost, costs[place][cost]) for cost in view.costs),
        ]
        for place, group in enumerate(view.groups)
    ]
    return join(
        tag("h3", f"Cost of reaching {100 * target:.1f}% accuracy"),
        paragraph(
            f"The target is {100 * SHARE:.0f}% of the best group's accuracy. inf where a seed does not reach it.",
            class_="fine",
        ),
        sortable(
            "to-target-table",
            "cost of the target accuracy",
            [*_who_headings(view), "seeds that do", *view.costs.values()],
            lines,
        ),
    )


def write(cost: str, value: float) -> str:
    """A cost as the comparison writes it."""
    if cost == "rounds":
        return figure(value)
    column = _column(cost)
    return column.write(value) if column else scientific(value)


def _column(cost: str) -> Column | None:
    return next((column for column in COLUMNS if column.key == cost), None)


def _spent(group: Group, cost: str, average: Average) -> Cell:
    """Nothing of a cost that the group does not have."""
    if not any(run.digest.course[cost][-1:].sum() > 0 for run in group.runs):
        return Cell("-", math.nan)
    return Cell(write(cost, average.mean), average.mean, exactly(average))


def _who_headings(view: View) -> list[str]:
    return ["group", *(view.short(key) for key in view.axes)]


def _who(view: View, place: int) -> list[Cell]:
    group = view.groups[place]
    return [name_of(view, group), *(setting(group.values.get(key)) for key in view.axes)]
