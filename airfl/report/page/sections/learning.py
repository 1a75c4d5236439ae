"""Plots of accuracy and loss against rounds and costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.analysis.results.averages import NOT_NEGATIVE, PERCENT, Average, average
from airfl.analysis.results.result import Group
from airfl.report.page import chart as draw
from airfl.report.page.view import PageView, look, spread
from airfl.runtime.numbers import figure, scientific

FAR_APART = 10.0  # ratio of the groups' totals from which on costs have a logarithmic axis
POINTS = 150  # most points of a curve: more could not be distinguished

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The course of a group, at the evaluated rounds that all its runs share.

    Attributes:
        name: Name of the group.
        means: Means over the seeds by the names of a course, [evaluations].
        accuracy: Test accuracy in % with its interval, at each of these rounds.
        loss: Test loss with its interval, at each of these rounds.
    """

    name: str
    means: dict[str, Array]
    accuracy: list[Average]
    loss: list[Average]


def learning(view: PageView) -> dict[str, Any]:
    """Return two plots, and a menu for their horizontal axis."""
    found = [(place, curve_of(view.name(view.groups[place]), view.groups[place], view.costs)) for place in view.best]
    curves = [(place, curve) for place, curve in found if curve is not None]
    without = [view.name(view.groups[place]) for place, curve in found if curve is None]
    missing = f"Not drawn, as there is no round at which all seeds were evaluated: {'; '.join(without)}."
    selection = " ".join(filter(None, [view.selection, missing * bool(without)]))
    if not curves:
        return {"charts": [], "selection": selection}
    drawn = [curve for _, curve in curves]
    costs = {name: text for name, text in view.costs.items() if any(curve.means[name][-1] > 0 for curve in drawn)}
    accuracies, losses = ([one for curve in drawn for one in getattr(curve, what)] for what in ("accuracy", "loss"))
    axes = {
        "accuracy": draw.axis("test accuracy (%)", draw.limits(accuracies, 100.0)),
        "loss": draw.fitting("test loss", [one.mean for one in losses], draw.limits(losses)),
    }
    charts = []
    for what, y in axes.items():
        traces, choices = _traces(drawn, what, costs)
        charts.append(draw.chart(f"plot-{what}", y["title"]["text"], traces, draw.axis(costs["rounds"]), y, choices))
    return {
        "charts": charts,
        "costs": costs,
        "legend": [(number, curve.name, look(number)) for number, curve in enumerate(drawn)],
        "areas": any(len(group.runs) > 1 for group in view.groups),
        "selection": selection,
    }


def curve_of(name: str, group: Group, costs: Sequence[str] | dict[str, str]) -> Curve | None:
    """Return the curve of a group; None if its runs share no evaluated round."""
    courses = [run.digest.course for run in group.runs]
    shared = reduce(np.intersect1d, [course["rounds"] for course in courses])
    if not shared.size:
        return None
    wanted = shared[np.unique(np.linspace(0, len(shared) - 1, min(POINTS, len(shared))).round().astype(int))]
    places = [np.searchsorted(course["rounds"], wanted) for course in courses]

    def stacked(what: str) -> Array:
        return np.stack([course[what][place] for course, place in zip(courses, places, strict=True)])

    return Curve(
        name=name,
        means={cost: stacked(cost).mean(axis=0) for cost in costs},
        accuracy=[average(values, PERCENT) for values in 100 * stacked("test_accuracy").T],
        loss=[average(values, NOT_NEGATIVE) for values in stacked("test_loss").T],
    )


def _traces(
    curves: Sequence[Curve], what: str, costs: dict[str, str]
) -> tuple[list[draw.Trace], dict[str, dict[str, Any]]]:
    """Return the curves, drawn over their intervals, against rounds, and what replaces the rounds in each choice."""
    traces: list[draw.Trace] = []
    xs: dict[str, list[object]] = {cost: [] for cost in costs}
    for number, curve in enumerate(curves):
        averages: list[Average] = getattr(curve, what)
        # Intervals over few seeds would cover the whole plot. The table and the fronts show them.
        low, high = (np.array([_around(one, side) for one in averages]) for side in (-1, 1))
        series, style, known = str(number), look(number), np.isfinite(low) & np.isfinite(high)
        texts = [_said(curve, place, costs) for place in range(len(averages))]
        rounds = curve.means["rounds"]
        if known.any():
            traces.append(draw.band(series, rounds, low, high, style, min(0.15, 1 / len(curves))))
            for cost in costs:
                xs[cost].append(draw.around(_spent(curve, cost), known))
        traces.append(draw.curve(series, rounds, [one.mean for one in averages], texts, style))
        for cost in costs:
            xs[cost].append(_spent(curve, cost))
    choices: dict[str, dict[str, Any]] = {}
    for cost, title in costs.items():
        spent = [value for curve in curves for value in curve.means[cost] if value > 0]
        ticks = draw.powers(spent)
        choices[cost] = {
            "x": xs[cost],
            "title": draw.plotly_text(title),
            "logarithmic": cost != "rounds" and spread([curve.means[cost][-1] for curve in curves]) > FAR_APART,
            "ticks": ticks,
            "ticktexts": draw.tick_texts(ticks),
        }
    return traces, choices


def _around(one: Average, side: int) -> float:
    """Return an edge of the area: the lower or higher of two values, else one deviation from the mean."""
    return (max if side > 0 else min)(one.points) if one.points else one.mean + side * one.deviation


def _spent(curve: Curve, cost: str) -> list[float | None]:
    """Return a curve's positions on the axis of a cost; none if the group does not have that cost."""
    values = curve.means[cost]
    return draw.listed(values if values[-1] > 0 else np.full(len(values), np.nan))


def _said(curve: Curve, place: int, costs: dict[str, str]) -> str:
    accuracy, loss = curve.accuracy[place], figure(curve.loss[place].mean)
    spent = [f"{text}: {_cost(cost, curve.means[cost][place])}" for cost, text in costs.items()]
    return "\n".join(
        [
            curve.name,
            f"accuracy: {draw.plus_minus(accuracy)} %{' (95% interval)' if math.isfinite(accuracy.low) else ''}",
            f"loss: {loss}",
            *spent,
        ]
    )


def _cost(cost: str, value: float) -> str:
    return figure(value) if cost in ("rounds", "air_time_s") else scientific(value)
