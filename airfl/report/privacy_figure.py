"""The privacy figure from traces: claimed and accounted epsilon over rounds, as PNG and PDF."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.analysis.results.averages import epsilon_of_seeds
from airfl.core.summary import values_of
from airfl.privacy.verdict import ADJACENCIES
from airfl.report.figures import (
    COLOURS,
    LINE_HEIGHT,
    PRIVACY,
    STYLES,
    RecordedRounds,
    check_new_files,
    lighten,
    write_figure,
)
from airfl.report.legend import legend_layout, wrap
from airfl.runtime.notebook.style import COLUMN, PAGE, Style
from airfl.runtime.numbers import figure, scientific
from airfl.runtime.text import in_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILES = ("privacy.png", "privacy.pdf")
PANELS = 8
WIDTH_OF_TEXT = 36  # characters, in the narrowest panel

# Variable -> its label in the legend, as in the tables. The label of a claim depends on its scope.
NAMES = {
    "epsilon_round": "one round",
    "epsilon": "run",
    "epsilon_as_poisson": "run as Poisson",
    "epsilon_at_least": "run at least",
}
CLAIMS = {"round": "claimed for each round", "run": "claimed for the run"}
# In the order of the legend.
LOOKS: dict[str, dict[str, Any]] = {
    "claimed for the run": {"color": COLOURS[6], "linestyle": STYLES[2], "linewidth": 1.6},
    "claimed for each round": {"color": COLOURS[6], "linestyle": STYLES[3], "linewidth": 1.2},
    "one round": {"color": COLOURS[4], "linestyle": STYLES[0], "linewidth": 0.8},
    "run": {"color": COLOURS[0], "linestyle": STYLES[0], "linewidth": 2.0},
    "run as Poisson": {"color": COLOURS[2], "linestyle": STYLES[1], "linewidth": 1.6},
    "run at least": {"color": COLOURS[1], "linestyle": "none", "marker": "^", "markersize": 7},
}


@dataclass(frozen=True)
class PrivacyCurves:
    """The privacy of the runs of one label.

    Attributes:
        label: The title of the panel.
        about: The privacy guarantee: level, adjacency and delta.
        seeds: Number of runs.
        curves: Label in the legend -> epsilon over rounds, the worst of the seeds, [rounds]; nan if not evaluated.
    """

    label: str
    about: str
    seeds: int
    curves: dict[str, np.ndarray]

    @property
    def any_finite(self) -> bool:
        """Whether any epsilon is finite."""
        return any(bool(np.isfinite(values).any()) for values in self.curves.values())


def curves_of(label: str, runs: Sequence[RecordedRounds]) -> PrivacyCurves:
    """Return the curves of runs that differ in their seed only, up to the end of the shortest run.

    Variables that traces of older versions lack are left out.
    """
    trace = runs[0].trace
    scope, attributes = str(trace["epsilon_paper"].attrs["scope"]), trace["epsilon"].attrs
    rounds = min(run.trace.sizes["round"] for run in runs)
    bounds = {name: epsilon_of_seeds(name, [values_of(run.trace, name)[:rounds] for run in runs]) for name in PRIVACY}
    return PrivacyCurves(
        label=label,
        about=f"{attributes['level']} level, {ADJACENCIES[str(attributes['adjacency'])]}, "
        f"δ = {figure(float(attributes['delta']))}",
        seeds=len(runs),
        curves={
            NAMES.get(name) or CLAIMS[scope]: values for name, values in bounds.items() if not np.isnan(values).all()
        },
    )


def plot(groups: Sequence[tuple[str, Sequence[RecordedRounds]]], out: Path, style: Style | None = None) -> list[Path]:
    """Draw one panel per (label, runs), write out/privacy.png and out/privacy.pdf, and return these files.

    Nothing is written if no run has a finite epsilon. Raises UserError if a file exists.
    """
    files = [out / name for name in FILES]
    check_new_files(files)
    rows = [curves_of(label, runs) for label, runs in groups]
    if not any(row.any_finite for row in rows):
        return []
    widths = (COLUMN, PAGE) if style else (6.0, 11.0)
    return write_figure(lambda drawing: draw(drawing, rows, widths), files, style=style)


def draw(drawing: Figure, rows: Sequence[PrivacyCurves], widths: tuple[float, float] = (6.0, 11.0)) -> None:
    """Draw epsilon over rounds, one panel per row on shared axes. Rows beyond the first `PANELS` are left out.

    widths: of the figure in inches, with one column of panels and with several.
    """
    drawn = rows[:PANELS]
    lines, columns = grid(len(drawn))
    width = widths[columns > 1]
    # The axis labels take some of the width. Long titles are wrapped.
    titles = [wrap(in_figure(row.label), (width - 0.6) / columns - 0.3) for row in drawn]
    extra_lines = max(title.count("\n") for title in titles)
    drawing.set_size_inches(width, (3.3 + LINE_HEIGHT * extra_lines) * lines + 0.6)
    axes = drawing.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axis, row, title in zip(axes.flat, drawn, titles, strict=False):
        _draw_row(axis, row, title)
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    for column in range(columns):
        lowest = axes[(len(drawn) - 1 - column) // columns, column]
        lowest.set_xlabel("round")
        lowest.tick_params(labelbottom=True)
    _scale(axes[0, 0], drawn)
    for axis in axes[:, 0]:
        axis.set_ylabel("ε")
    handles = dict(pair[::-1] for axis in axes.flat for pair in zip(*axis.get_legend_handles_labels(), strict=True))
    names = [name for name in LOOKS if name in handles]
    fit = legend_layout(names, width - 0.3, most=len(names) if columns > 1 else 3)
    drawing.legend(
        [handles[name] for name in names], fit.labels, loc="outside lower center", ncols=fit.columns, frameon=False
    )
    if title := _title(rows):
        drawing.suptitle(title, fontsize="medium")


def grid(panels: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of the grid: up to three panels in one row, else two rows."""
    return (1, panels) if panels < 4 else (2, math.ceil(panels / 2))


def off_scale(row: PrivacyCurves) -> str:
    """Describe curves that a logarithmic axis cannot show: infinite ones, with their first round, and zero ones."""
    infinite, zero = [], []
    for name, values in row.curves.items():
        known = values[~np.isnan(values)]
        if np.isinf(known).all():
            infinite.append(name)
        elif np.isinf(known).any():
            infinite.append(f"{name} (first in round {int(np.argmax(np.isinf(values))) + 1:,})")
        elif not known.any():
            zero.append(name)
    texts = [f"{value}: {', '.join(names)}" for value, names in (("inf", infinite), ("0", zero)) if names]
    return "\n".join(textwrap.fill(text, WIDTH_OF_TEXT) for text in texts)


def _draw_row(axis: Axes, row: PrivacyCurves, title: str) -> None:
    for name, values in row.curves.items():
        known = np.flatnonzero(~np.isnan(values))
        drawable = np.where(np.isfinite(values) & (values > 0), values, np.nan)[known]
        single = (
            {"marker": "o"} if np.isfinite(drawable).sum() == 1 else {}
        )  # a single point is visible only with a marker
        axis.plot(known + 1, drawable, label=name, **{**single, **LOOKS[name]})
    axis.set_title(title, fontsize="medium", loc="left", pad=16)
    axis.text(0, 1.02, row.about, transform=axis.transAxes, fontsize="x-small", color="0.3")
    if text := off_scale(row):
        position: dict[str, Any] = {"y": 0.04, "va": "bottom"} if row.any_finite else {"y": 0.5, "va": "center"}
        axis.text(x=0.5, s=text, transform=axis.transAxes, fontsize="small", ha="center", **position)
    lighten(axis)


def _scale(axis: Axes, rows: Sequence[PrivacyCurves]) -> None:
    """Scale the shared axes: whole decades, at least one of them, and integer rounds."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    values = np.concatenate([values for row in rows for values in row.curves.values()])
    positive = values[np.isfinite(values) & (values > 0)]
    axis.set_yscale("log")
    if positive.size:
        lowest, highest = math.floor(np.log10(positive.min())), math.ceil(np.log10(positive.max()))
        axis.set_ylim(10.0**lowest, 10.0 ** max(highest, lowest + 1))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _power_of_ten(value)))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def _power_of_ten(value: float) -> str:
    return figure(value) if 1e-4 <= value < 1e6 else scientific(value).replace(".00", "")


def _title(rows: Sequence[PrivacyCurves]) -> str:
    """Return the title: how many rows are shown, and of how many seeds the worst."""
    seeds = max(row.seeds for row in rows)
    parts = [f"first {PANELS} of {len(rows)} rows"] if len(rows) > PANELS else []
    return "; ".join([*parts, f"worst of {seeds} seeds"] if seeds > 1 else parts)
