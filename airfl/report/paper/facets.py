"""Facets, for more lines than one panel can show: the same figure is drawn several times on equal axes, one below the
other, each with some of the runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from airfl.analysis.results.result import Group, Result, Results, plain
from airfl.errors import UserError
from airfl.report.legend import wrap
from airfl.report.paper.look import FACETS, LINES, TooManyLinesError, text
from airfl.report.paper.names import value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

TITLE_HEIGHT = 0.17  # inches
FEW = 3
"""The average number of lines that a facet must have."""

Draw = Callable[["Figure", Results], None]


@dataclass(frozen=True)
class Part:
    """The runs of one facet.

    Attributes:
        title: What the runs have in common.
        results: The runs.
        height: Height of a figure of these runs in inches; nan before it is drawn.
    """

    title: str
    results: Results
    height: float = math.nan


def draw_in_facets(figure: Figure, results: Results, draw: Draw, joined: Iterable[str] = ()) -> None:
    """Draw all runs in one figure or, if these are too many lines, in facets.

    Args:
        figure: The figure.
        results: The runs.
        draw: Draws some of the runs on a figure or subfigure.
        joined: Keys whose values are points of one line.

    Raises the UserError of `draw`, and TooManyLinesError for too many facets.
    """
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
    heights = [part.height + TITLE_HEIGHT * count for part, count in zip(parts, lines, strict=True)]
    figure.set_figheight(sum(heights))
    subfigures = figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, title, subfigure, height in zip(parts, titles, subfigures, heights, strict=True):
        draw(cast("Figure", _Facet(subfigure, figure.get_figwidth(), height)), part.results)
        for legend in subfigure.legends:
            legend.set_title(title)
    for axes in zip(*(subfigure.axes for subfigure in subfigures), strict=True):
        _share(axes)


class _Facet:
    """A subfigure with the interface of a figure, whose size cannot be changed any more."""

    def __init__(self, inner: SubFigure, width: float, height: float) -> None:
        self._inner, self._width, self._height = inner, width, height

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_figwidth(self) -> float:
        """Return the width in inches."""
        return self._width

    def get_figheight(self) -> float:
        """Return the height in inches."""
        return self._height

    def set_figheight(self, height: float) -> None:
        """Do nothing, since the height has been measured before."""


def _parts(results: Results, draw: Draw, width: float, joined: frozenset[str], most: int) -> list[Part] | None:
    """Split the runs by label or by one key, in the fewest parts, at most `most`, without too many lines in any.

    If that is impossible, split them in order, with at most `LINES` lines each. Return None for too many parts.
    """
    labels = _grouped(results, lambda run: run.label, lambda run: run.label)
    splits = [labels] if all(part.title for part in labels) else []
    for key in results.axes:
        if key not in joined:
            splits.append(_grouped(results, _value(key), _title(key)))
    for split in sorted(splits, key=len):
        if 1 < len(split) <= min(most, FACETS) and (measured := _measured(split, draw, width)):
            return measured
    for size in range(LINES, 0, -1):
        split = _in_order(results, joined, size)
        if len(split) > FACETS:
            return None
        if measured := _measured(split, draw, width):
            return measured
    return None


def _value(key: str) -> Callable[[Result], str]:
    return lambda run: plain(run.values.get(key))


def _title(key: str) -> Callable[[Result], str]:
    return lambda run: value_text(key, run.values)


def _grouped(results: Results, by: Callable[[Result], str], title: Callable[[Result], str]) -> list[Part]:
    groups: dict[str, list[Result]] = {}
    for run in results.runs:
        groups.setdefault(by(run), []).append(run)
    return [Part(title(runs[0]), replace(results, runs=tuple(runs))) for runs in groups.values()]


def _in_order(results: Results, joined: frozenset[str], size: int) -> list[Part]:
    """Split the runs into parts of `size` lines. Groups that differ in joined keys only are one line."""
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
    """Return the parts with their heights; None if one of them cannot be drawn."""
    try:
        return [replace(part, height=_height(part, draw, width)) for part in parts]
    except UserError:
        return None


def _height(part: Part, draw: Draw, width: float) -> float:
    """Return the height in inches of a figure with this part only."""
    from matplotlib.figure import Figure

    from airfl.report.paper.look import PANEL_HEIGHT

    separate = Figure(figsize=(width, PANEL_HEIGHT))
    draw(separate, part.results)
    return float(separate.get_figheight())


def _share(axes: Sequence[Axes]) -> None:
    """Set equal ranges on axes with equal labels, so that facets can be compared."""
    for which in ("x", "y"):
        labels = {getattr(axis, f"get_{which}label")() for axis in axes}
        scales = {getattr(axis, f"get_{which}scale")() for axis in axes}
        if labels == {""} or len(labels) > 1 or len(scales) > 1:
            continue
        ends = [getattr(axis, f"get_{which}lim")() for axis in axes]
        for axis in axes:
            getattr(axis, f"set_{which}lim")(min(low for low, _ in ends), max(high for _, high in ends))
