"""Test accuracy over cumulative energy, and a bar chart of the energy of whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from airfl.analysis.results.averages import NOT_NEGATIVE, Average, average
from airfl.analysis.results.result import Results
from airfl.report.figures import COLOURS
from airfl.report.legend import wrap
from airfl.report.paper.learning import learning_lines
from airfl.report.paper.lines import LABELS, draw_panel, is_wide, off_scale, scale_costs
from airfl.report.paper.look import HATCHES, check_lines, legend, set_scale, text
from airfl.report.paper.names import group_names, missing_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HUNDREDFOLD = 100.0
BAR_HEIGHT, LINE_HEIGHT, WIDEST_NAME = 0.24, 0.16, 1.7  # of a bar, of a line of its name, width of names, in inches


def draw(figure: Figure, results: Results) -> None:
    """Draw two panels. Raises UserError if energies have different units, or if no run spends energy."""
    check_lines(len(results.groups), results)
    units = sorted({run.digest.summary.energy_units for run in results.runs})
    if len(units) > 1:
        raise missing_data(
            f"energies in one unit, not in {' and '.join(units)}", results, "draw the folders separately"
        )
    bars = energy_bars(results)
    if not any(bar.mean > 0 for _, _, bar in bars):
        raise missing_data("runs that spend energy", results, "draw runs over a link that costs energy")
    label = LABELS["energy"].format(units=units[0])
    names = [wrap(text(name), WIDEST_NAME) for _, name, _ in bars]
    row_height = max(BAR_HEIGHT, max(LINE_HEIGHT * (name.count("\n") + 1) + 0.06 for name in names))
    figure.set_figheight(max(figure.get_figheight(), 0.7 + row_height * len(bars)))
    left, right = figure.subplots(1, 2)
    lines = learning_lines(results, "energy", "test_accuracy")
    draw_panel(left, lines, label, LABELS["test_accuracy"])
    scale_costs(left, lines)
    _draw_bars(right, bars, names)
    right.set_xlabel(label)
    legend(figure, left)


def energy_bars(results: Results) -> list[tuple[int, str, Average]]:
    """Return (index of the group, name, energy of the whole run over seeds), without groups that are off scale."""
    names = group_names(results.groups, results.axes)
    return [
        (index, name, average([run.digest.summary.energy for run in group.runs], NOT_NEGATIVE))
        for index, (name, group, off) in enumerate(zip(names, results.groups, off_scale(results.groups), strict=True))
        if not off
    ]


def _draw_bars(axis: Axes, bars: Sequence[tuple[int, str, Average]], names: Sequence[str]) -> None:
    """Draw the bars top to bottom in the order of the groups, in their colours, with hatches for greyscale."""
    for row, (index, _, bar) in enumerate(bars):
        known = np.isfinite(bar.low)
        # Pale bars and thin error bars keep the left end of the interval visible.
        axis.barh(
            row,
            bar.mean,
            height=0.62,
            facecolor=(COLOURS[index % len(COLOURS)], 0.55),
            edgecolor="black",
            linewidth=0.5,
            hatch=HATCHES[(index + index // len(COLOURS)) % len(HATCHES)],
            xerr=[[bar.below], [bar.above]] if known else None,
            error_kw={"elinewidth": 0.8, "capsize": 2, "capthick": 0.8},
        )
        axis.plot(bar.points, [row] * len(bar.points), color="black", linestyle="none", marker="|", markersize=4)
    axis.set_yticks(range(len(bars)), list(names))
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    means = np.array([bar.mean for _, _, bar in bars])
    positive = means[means > 0]
    if is_wide(positive, HUNDREDFOLD):
        set_scale(axis, [float(positive.min()) / 3, float(positive.max())], "x")
