"""More lines than one panel can show: the same figure several times, one below the other on the same axes, each of some
of the runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from airfl.errors import UserError
from airfl.report.legend import wrap
from airfl.report.paper.look import FACETS, LINES, TooManyLinesError, text
from airfl.report.paper.names import value_text
from airfl.results.collect import Group, Result, Results, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

TITLE_HEIGHT = 0.17  # inches
FEW = 3
"""Lines in a facet, on average, that a key must leave to make facets."""

Draw = Callable[["Figure", Results], None]


@dataclass(frozen=True)
class Part:
    """Some of the runs, and what they have in common.

    Attributes:
        title: What they have in common.
        results: The runs.
        height: Inches that a figure of it takes; nan where it was not drawn yet.
    """

    title: str
    results: Results
    height: float = math.nan


def draw_in_facets(figure: Figure, results: Results, draw: Draw, joined: Iterable[str] = ()) -> None:
    """`draw` of all the runs or, where their lines are too many, of parts of them. joined: keys whose values belong to
    one line. UserError of `draw`, and where there would be too many facets."""
    try:
        draw(figure, results)
        return
    except TooManyLinesError as error:
        too_many = error
    parts = _parts(results, draw, figure.get_figwidth(), frozenset(joined), too_many.count // FEW)
    if parts is None:
        raise too_many
    titles = [wrap(text(part.title), figure.get_figwidth() - 2 * TITLE_HEIGHT) for part in parts]
    lines = [title.count("\n") + 1 for title in titles]
    heights = [part.height + TITLE_HEIGHT * more for part, more in zip(parts, lines, strict=True)]
    figure.set_figheight(sum(heights))
    below = figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, title, one, height in zip(parts, titles, below, heights, strict=True):
        draw(cast("Figure", _Facet(one, figure.get_figwidth(), height)), part.results)
        for legend in one.legends:
            legend.set_title(title)
    for axes in zip(*(one.axes for one in below), strict=True):
        _share(axes)


class _Facet:
    """A part of a figure, to those that draw a figure of its own: its size is fixed by now."""

    def __init__(self, inner: SubFigure, width: float, height: float) -> None:
        self._inner, self._width, self._height = inner, width, height

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_figwidth(self) -> float:
        """Inches."""
        return self._width

    def get_figheight(self) -> float:
        """Inches."""
        return self._height

    def set_figheight(self, height: float) -> None:
        """Has been asked for before."""


def _parts(results: Results, draw: Draw, width: float, joined: frozenset[str], most: int) -> list[Part] | None:
    """By a label or one key that leaves no part too many lines, in the fewest parts, `most` of them at most; else in
    order, ten lines each."""
    labels = _grouped(results, lambda run: run.label, lambda run: run.label)
    ways = [labels] if all(part.title for part in labels) else []
    for key in results.axes:
        if key not in joined:
            ways.append(_grouped(results, _value(key), _title(key)))
    for way in sorted(ways, key=len):
        if 1 < len(way) <= min(most, FACETS) and (measured := _measured(way, draw, width)):
            return measured
    for size in range(LINES, 0, -1):
        way = _in_order(results, joined, size)
        if len(way) > FACETS:
            return None
        if measured := _measured(way, draw, width):
            return measured
    return None


def _value(key: str) -> Callable[[Result], str]:
    return lambda run: plain(run.values.get(key))


def _title(key: str) -> Callable[[Result], str]:
    return lambda run: value_text(key, run.values)


def _grouped(results: Results, by: Callable[[Result], str], title: Callable[[Result], str]) -> list[Part]:
    found: dict[str, list[Result]] = {}
    for run in results.runs:
        found.setdefault(by(run), []).append(run)
    return [Part(title(runs[0]), replace(results, runs=tuple(runs))) for runs in found.values()]


def _in_order(results: Results, joined: frozenset[str], size: int) -> list[Part]:
    """Of so many lines each: groups that differ in joined keys alone stay together."""
    families: dict[str, list[Group]] = {}
    for group in results.groups:
        others = [plain(group.values.get(key)) for key in results.axes if key not in joined]
        families.setdefault(str([group.label, others]), []).append(group)
    listed, parts = list(families.values()), []
    for first in range(0, len(listed), size):
        some = listed[first : first + size]
        runs = tuple(run for family in some for group in family for run in group.runs)
        parts.append(Part(f"{first + 1} to {first + len(some)} of {len(listed)}", replace(results, runs=runs)))
    return parts


def _measured(parts: Sequence[Part], draw: Draw, width: float) -> list[Part] | None:
    """With their heights; None if one of them cannot be drawn."""
    try:
        return [replace(part, height=_height(part, draw, width)) for part in parts]
    except UserError:
        return None


def _height(part: Part, draw: Draw, width: float) -> float:
    """Inches that a figure of this part by itself takes."""
    from matplotlib.figure import Figure

    from airfl.report.paper.look import PANEL_HEIGHT

    alone = Figure(figsize=(width, PANEL_HEIGHT))
    draw(alone, part.results)
    return float(alone.get_figheight())


def _share(axes: Sequence[Axes]) -> None:
    """The same scale and range on the axes that have a label, so that facets can be compared."""
    for which in ("x", "y"):
        labels = {getattr(axis, f"get_{which}label")() for axis in axes}
        scales = {getattr(axis, f"get_{which}scale")() for axis in axes}
        if labels == {""} or len(labels) > 1 or len(scales) > 1:
            continue
        ends = [getattr(axis, f"get_{which}lim")() for axis in axes]
        for axis in axes:
            getattr(axis, f"set_{which}lim")(min(low for low, _ in ends), max(high for _, high in ends))
