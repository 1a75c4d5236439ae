"""Pareto fronts: accuracy against energy, and against resource elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from airfl.analysis.results.averages import NOT_NEGATIVE, Average, average
from airfl.report.page import chart as draw
from airfl.report.page.pareto import front
from airfl.report.page.view import MANY, PageView, look
from airfl.runtime.numbers import scientific

COSTS = {"energy": "energy", "resource_elements": "resource elements"}


def fronts(view: PageView) -> dict[str, Any]:
    """Return two plots with a point per group, in which a line joins the points that are not dominated.

    The section is left out if no accuracy is known.
    """
    if all(math.isnan(one.mean) for one in view.accuracies):
        return {}
    charts, said = [], []
    known = {cost: title for cost, title in COSTS.items() if cost in view.costs}
    for cost, title in known.items():
        values = [[float(getattr(run.digest.summary, cost)) for run in group.runs] for group in view.groups]
        spent = [average(of_seeds, NOT_NEGATIVE) for of_seeds in values]
        best = front([one.mean for one in spent], [one.mean for one in view.accuracies])
        charts.append(_plot(view, cost, spent, best))
        names = [f"{view.name(view.groups[at])} ({draw.plus_minus(view.accuracies[at])} %)" for at in best]
        said.append((title, names))
    return {
        "charts": charts,
        "legend": [(number, kind, look(number)) for number, kind in enumerate(view.kinds)],
        "bars": len(view.groups) <= MANY,
        "units_differ": known != COSTS,
        "best": said,
    }


def _plot(view: PageView, cost: str, spent: Sequence[Average], best: Sequence[int]) -> draw.Chart:
    title = view.costs[cost]
    x, y = ([averages[place].mean for place in best] for averages in (spent, view.accuracies))
    traces = [draw.scatter("lines", x, y, line={"color": draw.GREY, "width": 2, "shape": "hv"})]
    for number, kind in enumerate(view.kinds):
        places = [place for place, group in enumerate(view.groups) if view.kind(group) == kind]
        averages, costs = [view.accuracies[place] for place in places], [spent[place] for place in places]
        style = look(number)
        texts = [
            f"{view.name(view.groups[place])}\naccuracy: {draw.plus_minus(view.accuracies[place])} %\n"
            f"{title}: {scientific(spent[place].mean)}"
            for place in places
        ]
        bars = {}
        if len(view.groups) <= MANY:
            bars = {
                "error_x": draw.whiskers(costs, style),
                "error_y": draw.whiskers(averages, style),
            }
        traces.append(
            draw.points(str(number), [one.mean for one in costs], [one.mean for one in averages], texts, style, **bars)
        )
        if len(view.groups) <= MANY:
            traces += draw.single_runs(str(number), costs, averages, style)
    return draw.chart(
        f"plot-front-{cost.replace('_', '-')}",
        f"test accuracy (%) against {title}",
        traces,
        draw.fitting(title, [one.mean for one in spent], draw.limits(spent)),
        draw.axis("test accuracy (%)", draw.limits(view.accuracies, 100.0)),
    )
