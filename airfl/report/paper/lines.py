"""Lines that average over seeds: mean and 95% confidence interval of the mean, and drawing them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.analysis.results.averages import NOT_NEGATIVE, average
from airfl.analysis.results.averages import PERCENT as PERCENTS
from airfl.analysis.results.result import Group
from airfl.errors import UserError
from airfl.report.figures import frame, look
from airfl.report.paper.look import set_scale, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = NDArray[np.float64]
MARKED = 12  # markers on a long curve
WIDE = 10.0  # ratio of the ends of an axis from which it is logarithmic

LABELS = {
    "rounds": "communication round",
    "resource_elements": "resource elements",
    "energy": "energy of all devices ({units})",
    "uplink_bits": "uplink bits",
    "test_accuracy": "test accuracy (%)",
    "train_loss": "training loss",
    "gradient_norm_squared": "‖∇f‖²",
}
"""Name of a quantity -> its axis label."""
# Label of the y axis -> ratio of the largest to the smallest mean from which the axis is logarithmic.
WIDE_LOSSES = {LABELS["train_loss"]: 30.0, LABELS["gradient_norm_squared"]: 10.0}
PERCENT = ("test_accuracy",)
FINAL = " (final level)"
THIN: dict[str, Any] = {"linewidth": 0.5, "alpha": 0.5, "markersize": 1.8}
"""Style of single runs, which are drawn in addition to the mean of two."""


@dataclass(frozen=True)
class Line:
    """A line of a figure: the mean over seeds. A level is a horizontal line, with one mean and without x.

    Attributes:
        name: Label in the legend.
        x: Positions of the points, [points]; empty for a level.
        mean: Means over seeds, [points].
        low: Lower ends of the 95% intervals, [points]; nan if there is none.
        high: Upper ends of the 95% intervals, [points]; nan if there is none.
        runs: Values of two seeds, which are too few for an interval, [2, points]; else empty.
    """

    name: str
    x: Numbers
    mean: Numbers
    low: Numbers
    high: Numbers
    runs: Numbers = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def is_level(self) -> bool:
        """Whether it is a horizontal line."""
        return not self.x.size


def line_of(name: str, x: Numbers, values: Sequence[Sequence[float]], percent: bool) -> Line:
    """Return the line of these values.

    Args:
        name: Label in the legend.
        x: Positions of the points; empty for a level.
        values: Values of the seeds, for each position or for the level.
        percent: Convert the values from shares to percent.
    """
    scale = 100.0 if percent else 1.0
    within = PERCENTS if percent else NOT_NEGATIVE
    averages = [average([scale * value for value in seeds], within) for seeds in values]
    low, high = np.array([one.low for one in averages]), np.array([one.high for one in averages])
    few = [one.points or (math.nan, math.nan) for one in averages]
    runs = np.array(few).T if any(one.points for one in averages) else np.empty((0, 0))
    return Line(name, x, np.array([one.mean for one in averages]), low, high, runs)


def curve(name: str, group: Group, x: str, y: str) -> Line:
    """Return the line of y over x at the evaluated rounds that all runs of the group share; x is the mean over
    seeds."""
    courses = [run.digest.course for run in group.runs]
    rounds = set.intersection(*({float(number) for number in course["rounds"]} for course in courses))
    indices = [
        [index for index, number in enumerate(course["rounds"]) if float(number) in rounds] for course in courses
    ]
    xs = np.array([course[x][index] for course, index in zip(courses, indices, strict=True)])
    ys = np.array([course[y][index] for course, index in zip(courses, indices, strict=True)])
    if not rounds:
        raise UserError(f"{group.runs[0].folder}: the runs of {group.name} share no evaluated round")
    return line_of(name, xs.mean(axis=0), ys.T.tolist(), y in PERCENT)


def level(name: str, group: Group, y: str) -> Line:
    """Return the last evaluation of the runs of a group as a horizontal line."""
    last = [float(run.digest.course[y][-1]) for run in group.runs]
    return line_of(name, np.empty(0), [last], y in PERCENT)


def off_scale(groups: Sequence[Group]) -> list[bool]:
    """Return which groups have costs orders of magnitude above the others: those of the ideal link, if there are
    others."""
    if all(group.link == "ideal" for group in groups):
        return [False] * len(groups)
    return [group.link == "ideal" for group in groups]


def draw_panel(axis: Axes, lines: Sequence[Line], x: str, y: str) -> None:
    """Draw lines, each in the style of its index. x and y are the axis labels."""
    from matplotlib.ticker import MaxNLocator

    for number, line in enumerate(lines):
        draw_line(axis, line, number, len(lines))
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if x == LABELS["rounds"]:
        axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 5, 10]))
    means = _known([line.mean for line in lines])
    if is_wide(means, WIDE_LOSSES.get(y, math.inf)):
        set_scale(axis, means.tolist(), "y")
    elif means.size:
        frame(axis, means, _known([end for line in lines for end in (line.low, line.high, line.runs.ravel())]))


def draw_line(axis: Axes, line: Line, number: int, lines: int) -> None:
    """Draw line `number` of `lines`: the mean with markers, the interval as a band, two seeds as thin lines."""
    style = look(number)
    band: dict[str, Any] = {"color": style["color"], "alpha": 0.13, "linewidth": 0}
    known = bool(np.isfinite(line.low).any())
    if line.is_level:
        axis.axhline(line.mean[0], label=text(line.name), **{**style, "marker": "none"})
        if known:
            axis.axhspan(line.low[0], line.high[0], **{**band, "alpha": 0.06})
        for run in line.runs:
            axis.axhline(run[0], color=style["color"], **THIN)
        return
    # Long curves have few markers, shifted against those of the other lines.
    step = -(-len(line.x) // MARKED)
    axis.plot(line.x, line.mean, label=text(line.name), markevery=(number * step // lines, step), **style)
    if known:
        axis.fill_between(line.x, line.low, line.high, **band)
    for run in line.runs:
        axis.plot(line.x, run, color=style["color"], marker=style["marker"] if len(line.x) == 1 else "none", **THIN)


def scale_costs(axis: Axes, lines: Sequence[Line]) -> None:
    """Make x logarithmic if the ends of the lines differ too much for a linear axis."""
    xs, ends = _known([line.x for line in lines]), np.array([line.x.max() for line in lines if not line.is_level])
    if is_wide(ends, WIDE) and is_wide(xs, WIDE):
        set_scale(axis, xs.tolist(), "x")


def is_wide(values: Numbers, ratio: float) -> bool:
    """Return whether values are positive and range over this ratio or more."""
    return bool(values.size) and float(values.min()) > 0 and float(values.max() / values.min()) >= ratio


def _known(arrays: Sequence[Numbers]) -> Numbers:
    values: Numbers = np.concatenate([np.empty(0), *arrays])
    known: Numbers = values[np.isfinite(values)]
    return known
