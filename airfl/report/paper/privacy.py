"""Test accuracy over the accounted epsilon of the run, and over the claimed epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from airfl.analysis.results.averages import PERCENT, Average, average, epsilon_of_seeds
from airfl.analysis.results.result import Group, Results, number_of
from airfl.config.json_numbers import to_json
from airfl.report.figures import look
from airfl.report.paper.lines import LABELS, THIN
from airfl.report.paper.look import check_lines, legend, set_scale, text
from airfl.report.paper.names import group_names, missing_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLAIMS = {"round": "for each round", "run": "for the run"}


@dataclass(frozen=True)
class PrivacyPoint:
    """A group of runs as a point of the figure.

    Attributes:
        accuracy: Test accuracy in percent.
        epsilon: Epsilon of the run, the largest of the seeds.
        claimed: Claimed epsilon, the largest of the seeds; nan without a claim.
        scope: Scope of the claim, "round" or "run".
    """

    accuracy: Average
    epsilon: float
    claimed: float
    scope: str


def draw(figure: Figure, results: Results) -> None:
    """Draw the lines of `series_of`, over a logarithmic epsilon. Raises UserError if no epsilon is finite."""
    series = series_of(results)
    check_lines(len(series), results)
    finite = [e for _, points in series for point in points for e in (point.epsilon, point.claimed) if _drawable(e)]
    if not finite:
        raise missing_data("runs with a finite epsilon", results, "draw private schemes (airfl schemes)")
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
    """Return the keys whose values are points of one line."""
    varying = {_varying(results.axes, family) for family in _families(results)}
    return [key for key in results.axes if key in varying]


def series_of(results: Results) -> list[tuple[str, list[PrivacyPoint]]]:
    """Return (name, points in the order of the swept number) for groups that differ in one swept number only."""
    firsts, series = [], []
    for family in _families(results):
        varying = _varying(results.axes, family)
        lines: dict[str, list[Group]] = {}
        for group in family:
            lines.setdefault(to_json([group.values.get(key) for key in results.axes if key != varying]), []).append(
                group
            )
        for line in lines.values():
            # The value that varies along a line is not part of its name.
            firsts.append(replace(line[0], values={**line[0].values, varying: None} if varying else line[0].values))
            series.append(sorted(line, key=lambda group: number_of(group.values.get(varying)) if varying else 0.0))
    names = group_names(firsts, results.axes)
    return [(name, [_point(group) for group in line]) for name, line in zip(names, series, strict=True)]


def _families(results: Results) -> list[list[Group]]:
    """Return the groups in families, within which they differ in numeric settings only."""
    known = [(key, run.values[key]) for run in results.runs for key in results.axes if run.values.get(key) is not None]
    non_numeric = {key for key, value in known if math.isnan(number_of(value))}
    families: dict[str, list[Group]] = {}
    for group in results.groups:
        values = [(key, group.values.get(key)) for key in results.axes]
        kind = [value if key in non_numeric else value is None for key, value in values]
        families.setdefault(to_json([group.label, group.scheme, kind]), []).append(group)
    return list(families.values())


def _varying(axes: Sequence[str], family: Sequence[Group]) -> str:
    """Return the key with the most values among these groups, the first if several have; "" if none varies."""
    counts = {key: len({to_json(group.values.get(key)) for group in family}) for key in axes}
    most = max(counts.values(), default=1)
    return next((key for key, count in counts.items() if count == most), "") if most > 1 else ""


def _point(group: Group) -> PrivacyPoint:
    summaries = [run.digest.summary for run in group.runs]
    return PrivacyPoint(
        accuracy=average([100 * summary.test_accuracy for summary in summaries], PERCENT),
        epsilon=float(epsilon_of_seeds("epsilon", [summary.epsilon for summary in summaries])),
        claimed=float(epsilon_of_seeds("epsilon_paper", [summary.epsilon_paper for summary in summaries])),
        scope=summaries[0].claim_scope,
    )


def _draw_series(axis: Axes, number: int, name: str, points: Sequence[PrivacyPoint]) -> None:
    style = look(number)
    exact = [point for point in points if _drawable(point.epsilon)]
    if not exact:  # without privacy: a horizontal line
        (best,) = sorted(points, key=lambda point: -point.accuracy.mean)[:1]
        several = f" (best of {len(points)})" if len(points) > 1 else ""
        axis.axhline(best.accuracy.mean, label=text(f"{name}, ε = ∞{several}"), **{**style, "marker": "none"})
        return
    for point in exact:
        if _drawable(point.claimed):  # connect the claimed epsilon with the true one
            both = ([point.claimed, point.epsilon], [point.accuracy.mean] * 2)
            axis.plot(*both, color=style["color"], linewidth=0.4, linestyle=":")
            hollow = {**style, "linestyle": "none", "markerfacecolor": "white"}
            axis.plot([point.claimed], [point.accuracy.mean], **hollow)
    # Points that cannot be drawn interrupt the line.
    whole = [(p.epsilon, p.accuracy.mean) if _drawable(p.epsilon) else (math.nan, math.nan) for p in points]
    axis.plot(*zip(*whole, strict=True), label=text(name), **style)
    xs, means = [point.epsilon for point in exact], np.array([point.accuracy.mean for point in exact])
    low, high = (np.array([getattr(point.accuracy, end) for point in exact]) for end in ("low", "high"))
    for point in exact:
        xs_of_runs = [point.epsilon] * len(point.accuracy.points)
        axis.plot(xs_of_runs, point.accuracy.points, color=style["color"], marker=style["marker"], **THIN)
    if np.isfinite(low).any():
        axis.errorbar(
            xs, means, yerr=[means - low, high - means], fmt="none", ecolor=style["color"], elinewidth=0.6, capsize=1.5
        )


def _drawable(value: float) -> bool:
    return math.isfinite(value) and value > 0
