"""The privacy figure from traces: what is claimed against what holds, round by round, as PNG and PDF."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.report.figures import (
    COLOURS,
    LINE_HEIGHT,
    PRIVACY,
    STYLES,
    Rounds,
    check_new_files,
    lighten,
    write_figure,
)
from airfl.report.legend import fitted, wrap
from airfl.report.numbers import figure, scientific
from airfl.report.summary import values_of
from airfl.report.verdict import ADJACENCIES
from airfl.shown import in_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILES = ("privacy.png", "privacy.pdf")
PANELS = 8
WIDTH_OF_TEXT = 36  # letters, in the narrowest panel

# What the legend calls the variables, in the words of the tables; a claim by what it is for.
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
    """The privacy of one label.

    Attributes:
        label: What stands above the panel.
        about: What the figures are for: level, adjacency and delta.
        seeds: How many runs.
        curves: Name in the legend -> epsilon by round, the mean over the seeds, [rounds]; nan where there is none.
    """

    label: str
    about: str
    seeds: int
    curves: dict[str, np.ndarray]

    @property
    def any_finite(self) -> bool:
        """Whether there is anything to draw."""
        return any(bool(np.isfinite(values).any()) for values in self.curves.values())


def curves_of(label: str, runs: Sequence[Rounds]) -> PrivacyCurves:
    """The curves of runs that differ in their seed only, up to the end of the shortest.

    What the trace of an older version lacks is left out.
    """
    trace = runs[0].trace
    scope, about = str(trace["epsilon_paper"].attrs["scope"]), trace["epsilon"].attrs
    rounds = min(run.trace.sizes["round"] for run in runs)
    means = {name: np.mean([values_of(run.trace, name)[:rounds] for run in runs], axis=0) for name in PRIVACY}
    return PrivacyCurves(
        label=label,
        about=f"{about['level']} level, {ADJACENCIES[str(about['adjacency'])]}, δ = {figure(float(about['delta']))}",
        seeds=len(runs),
        curves={
            NAMES.get(name) or CLAIMS[scope]: values for name, values in means.items() if not np.isnan(values).all()
        },
    )


def plot(groups: Sequence[tuple[str, Sequence[Rounds]]], out: Path) -> list[Path]:
    """Draw the runs, (label, runs) a panel; writes out/privacy.png and out/privacy.pdf and returns them, or nothing
    where no run has a finite figure. UserError if a file is there already.
    """
    files = [out / name for name in FILES]
    check_new_files(files)
    rows = [curves_of(label, runs) for label, runs in groups]
    if not any(row.any_finite for row in rows):
        return []
    return write_figure(lambda drawing: draw(drawing, rows), files)


def draw(drawing: Figure, rows: Sequence[PrivacyCurves]) -> None:
    """Epsilon against rounds, a panel a row on shared axes; only the first `PANELS` rows, which the title then says."""
    drawn = rows[:PANELS]
    lines, columns = grid(len(drawn))
    width = 11.0 if columns > 1 else 6.0
    # Beside the panels stand the labels of the axis; a long name takes several lines.
    titles = [wrap(in_figure(row.label), (width - 0.6) / columns - 0.3) for row in drawn]
    more = max(title.count("\n") for title in titles)
    drawing.set_size_inches(width, (3.3 + LINE_HEIGHT * more) * lines + 0.6)
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
    found = dict(pair[::-1] for axis in axes.flat for pair in zip(*axis.get_legend_handles_labels(), strict=True))
    names = [name for name in LOOKS if name in found]
    fit = fitted(names, width - 0.3, most=len(names) if columns > 1 else 3)
    drawing.legend(
        [found[name] for name in names], fit.labels, loc="outside lower center", ncols=fit.columns, frameon=False
    )
    if title := _title(rows):
        drawing.suptitle(title, fontsize="medium")


def grid(panels: int) -> tuple[int, int]:
    """Lines and columns: up to three panels in a line, up to eight in two."""
    return (1, panels) if panels < 4 else (2, math.ceil(panels / 2))


def off_scale(row: PrivacyCurves) -> str:
    """What a logarithmic axis has no place for: figures that are infinite, and since when; figures that stay 0."""
    infinite, zero = [], []
    for name, values in row.curves.items():
        known = values[~np.isnan(values)]
        if np.isinf(known).all():
            infinite.append(name)
        elif np.isinf(known).any():
            infinite.append(f"{name} (first in round {int(np.argmax(np.isinf(values))) + 1:,})")
        elif not known.any():
            zero.append(name)
    texts = [f"{what}: {', '.join(names)}" for what, names in (("inf", infinite), ("0", zero)) if names]
    return "\n".join(textwrap.fill(text, WIDTH_OF_TEXT) for text in texts)


def _draw_row(axis: Axes, row: PrivacyCurves, title: str) -> None:
    for name, values in row.curves.items():
        known = np.flatnonzero(~np.isnan(values))
        drawable = np.where(np.isfinite(values) & (values > 0), values, np.nan)[known]
        alone = {"marker": "o"} if np.isfinite(drawable).sum() == 1 else {}  # a line of one point shows nothing
        axis.plot(known + 1, drawable, label=name, **{**alone, **LOOKS[name]})
    axis.set_title(title, fontsize="medium", loc="left", pad=16)
    axis.text(0, 1.02, row.about, transform=axis.transAxes, fontsize="x-small", color="0.3")
    if text := off_scale(row):
        place: dict[str, Any] = {"y": 0.04, "va": "bottom"} if row.any_finite else {"y": 0.5, "va": "center"}
        axis.text(x=0.5, s=text, transform=axis.transAxes, fontsize="small", ha="center", **place)
    lighten(axis)


def _scale(axis: Axes, rows: Sequence[PrivacyCurves]) -> None:
    """The axes that all panels share: whole decades, so that two are labelled at least, and whole rounds."""
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
    """What is left out, and what is a mean."""
    seeds = max(row.seeds for row in rows)
    parts = [f"the first {PANELS} of {len(rows)} rows"] if len(rows) > PANELS else []
    return "; ".join([*parts, f"mean over {seeds} seeds"] if seeds > 1 else parts)
