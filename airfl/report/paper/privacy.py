"""Test accuracy against the epsilon that holds for the run, beside the epsilon that is claimed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.report.figures import look
from airfl.report.paper.lines import LABELS, line_of
from airfl.report.paper.look import check_lines, legend, set_scale, text
from airfl.report.paper.names import group_names, lacking
from airfl.results.averages import Average, average
from airfl.results.collect import Group, Results, number_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLAIMS = {"round": "for each round", "run": "for the run"}


@dataclass(frozen=True)
class Point:
    """A group: accuracy in percent, mean epsilon of the run and of the claim (nan: none), what the claim is for."""

    accuracy: Average
    epsilon: float
    claimed: float
    scope: str


def draw(figure: Figure, results: Results) -> None:
    """One panel, epsilon logarithmic; a line through the points of groups that differ in numbers only. UserError where
    no run has a finite epsilon."""
    series = series_of(results)
    check_lines(len(series), results)
    finite = [e for _, points in series for point in points for e in (point.epsilon, point.claimed) if _drawable(e)]
    if not finite:
        raise lacking("runs with a finite epsilon", results, "draw private schemes (airfl schemes)")
    axis = figure.subplots()
    for number, (name, points) in enumerate(series):
        _draw_series(axis, number, name, points)
    axis.set_xlabel("ε")
    axis.set_ylabel(LABELS["test_accuracy"])
    set_scale(axis, finite, "x")
    scopes = sorted({point.scope for _, points in series for point in points if _drawable(point.claimed)})
    axis.plot([], [], color="0.3", marker="o", linestyle="none", label="holds for the run")
    if scopes:
        claimed = f"claimed {' or '.join(CLAIMS[scope] for scope in scopes)}"
        axis.plot([], [], color="0.3", marker="o", markerfacecolor="white", linestyle="none", label=claimed)
    legend(figure, axis)


def joined(results: Results) -> list[str]:
    """The keys whose values are points of one line: those with numbers."""
    return [key for key in results.axes if key not in _words(results)]


def _words(results: Results) -> list[str]:
    return [key for key in results.axes if any(math.isnan(number_of(run.values.get(key))) for run in results.runs)]


def series_of(results: Results) -> list[tuple[str, list[Point]]]:
    """(name, points in the order of their epsilon) of groups that differ in swept numbers only."""
    words = _words(results)
    together: dict[str, list[Group]] = {}
    for group in results.groups:
        together.setdefault(str([group.label, [group.values.get(key) for key in words]]), []).append(group)
    families = list(together.values())
    names = group_names([family[0] for family in families], words)
    found = []
    for name, family in zip(names, families, strict=True):
        points = [_point(group) for group in family]
        found.append((name, sorted(points, key=lambda point: (math.isnan(point.epsilon), point.epsilon))))
    return found


def _point(group: Group) -> Point:
    summaries = [run.digest.summary for run in group.runs]
    accuracy = line_of("", np.empty(0), [[one.test_accuracy for one in summaries]], percent=True)
    return Point(
        accuracy=Average(
            len(summaries), float(accuracy.mean[0]), low=float(accuracy.low[0]), high=float(accuracy.high[0])
        ),
        epsilon=average([one.epsilon for one in summaries]).mean,
        claimed=average([one.epsilon_paper for one in summaries]).mean,
        scope=summaries[0].claim_scope,
    )


def _draw_series(axis: Axes, number: int, name: str, points: Sequence[Point]) -> None:
    style = look(number)
    exact = [point for point in points if _drawable(point.epsilon)]
    if not exact:  # no privacy: the level that is reached without
        (best,) = sorted(points, key=lambda point: -point.accuracy.mean)[:1]
        axis.axhline(best.accuracy.mean, label=text(f"{name}, ε = ∞"), **{**style, "marker": "none"})
        return
    for point in exact:
        if _drawable(point.claimed):  # from what is claimed to what holds
            both = ([point.claimed, point.epsilon], [point.accuracy.mean] * 2)
            axis.plot(*both, color=style["color"], linewidth=0.4, linestyle=":")
            hollow = {**style, "linestyle": "none", "markerfacecolor": "white"}
            axis.plot([point.claimed], [point.accuracy.mean], **hollow)
    xs, means = [point.epsilon for point in exact], np.array([point.accuracy.mean for point in exact])
    low, high = (np.array([getattr(point.accuracy, end) for point in exact]) for end in ("low", "high"))
    axis.plot(xs, means, label=text(name), **style)
    if np.isfinite(low).any():
        axis.errorbar(
            xs, means, yerr=[means - low, high - means], fmt="none", ecolor=style["color"], elinewidth=0.6, capsize=1.5
        )


def _drawable(value: float) -> bool:
    return math.isfinite(value) and value > 0
