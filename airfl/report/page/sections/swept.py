"""Plots of accuracy against each swept number."""

from __future__ import annotations

import math
from typing import Any

from airfl.analysis.results.result import number_of, plain
from airfl.report.page import chart as draw
from airfl.report.page.view import PageView, look, or_least
from airfl.runtime.numbers import figure

LINES = 14  # most lines of a plot: those that reach the highest accuracy


def swept(view: PageView) -> dict[str, Any]:
    """Return a plot per swept key with at least two numbers, each with a line per combination of the other values."""
    plots = []
    for number, key in enumerate(view.results.axes):
        values = {number_of(group.values.get(key)) for group in view.groups}
        if len([value for value in values if math.isfinite(value)]) > 1:
            plots.append(_against(view, key, f"plot-swept-{number}"))
    return {"plots": plots} if plots else {}


def _against(view: PageView, key: str, name: str) -> dict[str, Any]:
    lines = _lines(view, key)
    best = sorted(lines, key=lambda line: -max(or_least(view.accuracies[place].mean) for place in lines[line]))[:LINES]
    kept = [line for line in lines if line in best]
    every = [number_of(view.groups[place].values[key]) for line in kept for place in lines[line]]
    shown = [view.accuracies[place] for line in kept for place in lines[line]]
    chart = draw.chart(
        name,
        f"test accuracy (%) against {key}",
        [one for number, line in enumerate(kept) for one in _line(view, key, line, lines[line], number)],
        draw.fitting(view.short(key), every),
        draw.axis("test accuracy (%)", draw.limits(shown, 100.0)),
    )
    legend = [(number, line, look(number)) for number, line in enumerate(kept)]
    return {"chart": chart, "legend": legend, "of": len(lines)}


def _lines(view: PageView, key: str) -> dict[str, list[int]]:
    """Return, by the values of all other keys, the places of the groups with a number for `key`, ordered by it."""
    lines: dict[str, list[int]] = {}
    places = [place for place, group in enumerate(view.groups) if math.isfinite(number_of(group.values.get(key)))]
    for place in sorted(places, key=lambda place: number_of(view.groups[place].values[key])):
        group = view.groups[place]
        others = [axis for axis in view.axes if axis != key and group.values.get(axis) is not None]
        rest = [f"{view.short(axis)} = {plain(group.values[axis])}" for axis in others]
        lines.setdefault(", ".join([view.kind(group), *rest]), []).append(place)
    asked = {place: number for number, place in enumerate(places)}
    return dict(sorted(lines.items(), key=lambda line: min(asked[place] for place in line[1])))


def _line(view: PageView, key: str, name: str, places: list[int], number: int) -> list[draw.Trace]:
    style = look(number)
    values = [number_of(view.groups[place].values[key]) for place in places]
    averages = [view.accuracies[place] for place in places]
    texts = [
        f"{name}\n{view.short(key)}: {figure(value)}\naccuracy: {draw.plus_minus(one)} %"
        for value, one in zip(values, averages, strict=True)
    ]
    trace = draw.curve(str(number), values, [one.mean for one in averages], texts, style)
    whole: draw.Trace = {**trace, "mode": "lines+markers", "error_y": draw.whiskers(averages, style)}
    return [whole, *draw.single_runs(str(number), values, averages, style)]
