"""The privacy figure from traces: what is claimed against what holds, round by round, as PNG and PDF."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.report.figures import COLOURS, STYLES, check_new_files, save_figure
from airfl.report.summary import ADJACENCIES, values_of
from airfl.trace import open_trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILES = ("privacy.png", "privacy.pdf")
PANELS = 8

# Variable -> what the legend calls it, in the words of the tables; in the order of the legend.
NAMES = {
    "epsilon_paper": "claimed for {scope}",
    "epsilon_round": "one round",
    "epsilon": "run",
    "epsilon_as_poisson": "run as Poisson",
    "epsilon_at_least": "run at least",
}
SCOPES = {"round": "each round", "run": "the run"}
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
    """The privacy of one label: name in the legend -> epsilon a round, [rounds], the mean over the seeds, nan where
    there is none; about: what it is for."""

    label: str
    about: str
    seeds: int
    curves: dict[str, np.ndarray]

    @property
    def any_finite(self) -> bool:
        """Whether there is anything to draw."""
        return any(np.isfinite(values).any() for values in self.curves.values())


def read_privacy(label: str, folders: Sequence[Path]) -> PrivacyCurves:
    """The curves of runs that differ in their seed only, up to the end of the shortest.

    What the trace of an older version lacks is left out.
    """
    runs: list[dict[str, np.ndarray]] = []
    for folder in folders:
        with open_trace(folder) as dataset:
            runs.append({name: values_of(dataset, name) for name in NAMES})
            scope, about = str(dataset["epsilon_paper"].attrs["scope"]), dataset["epsilon"].attrs
    rounds = min(len(run["epsilon"]) for run in runs)
    means = {name: np.mean([run[name][:rounds] for run in runs], axis=0) for name in NAMES}
    return PrivacyCurves(
        label=label,
        about=f"{about['level']} level, {ADJACENCIES[str(about['adjacency'])]}, δ = {float(about['delta']):g}",
        seeds=len(runs),
        curves={
            NAMES[name].format(scope=SCOPES.get(scope, "")): values
            for name, values in means.items()
            if not np.isnan(values).all()
        },
    )


def plot(groups: Sequence[tuple[str, Sequence[Path]]], out: Path) -> list[Path]:
    """Draw the runs, (label, run folders) a panel; writes out/privacy.png and out/privacy.pdf and returns them, or
    nothing where no run has a finite figure.

    UserError for a folder without a trace, or if a file is there already.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    files = [out / name for name in FILES]
    check_new_files(files)
    rows = [read_privacy(label, folders) for label, folders in groups]
    if not any(row.any_finite for row in rows):
        return []
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure, rows)
    return save_figure(figure, files)


def draw(figure: Figure, rows: Sequence[PrivacyCurves]) -> None:
    """Epsilon against rounds, a panel a row on shared axes; only the first `PANELS` rows, which the title then says."""
    drawn = rows[:PANELS]
    lines, columns = grid(len(drawn))
    figure.set_size_inches(11 if columns > 1 else 6, 3.3 * lines + 0.6)
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axis, row in zip(axes.flat, drawn, strict=False):
        _draw_row(axis, row)
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    for column in range(columns):
        lowest = axes[(len(drawn) - 1 - column) // columns, column]
        lowest.set_xlabel("round")
        lowest.tick_params(labelbottom=True)
    for axis in axes[:, 0]:
        axis.set_ylabel("ε")
    found = dict(pair[::-1] for axis in axes.flat for pair in zip(*axis.get_legend_handles_labels(), strict=True))
    names = [name for name in LOOKS if name in found]
    figure.legend(
        [found[name] for name in names],
        names,
        loc="outside lower center",
        ncols=len(names) if columns > 1 else 3,
        frameon=False,
    )
    if title := _title(rows):
        figure.suptitle(title, fontsize="medium")


def grid(panels: int) -> tuple[int, int]:
    """Lines and columns: up to three panels in a line, up to eight in two."""
    return (1, panels) if panels < 4 else (2, math.ceil(panels / 2))


def infinite(row: PrivacyCurves) -> str:
    """Which figures are infinite, and since when; empty where none is."""
    found = []
    for name, values in row.curves.items():
        known = values[~np.isnan(values)]
        if np.isinf(known).all():
            found.append(name)
        elif np.isinf(known).any():
            found.append(f"{name} (first in round {int(np.argmax(np.isinf(values))) + 1:,})")
    return "inf: " + ", ".join(found) if found else ""


def _draw_row(axis: Axes, row: PrivacyCurves) -> None:
    for name, values in row.curves.items():
        # A logarithmic axis has no place for 0, which is what a round costs in which nothing is released.
        known = np.flatnonzero(~np.isnan(values))
        drawable = np.where(np.isfinite(values) & (values > 0), values, np.nan)[known]
        alone = {"marker": "o"} if np.isfinite(drawable).sum() == 1 else {}  # a line of one point shows nothing
        axis.plot(known + 1, drawable, label=name, **{**alone, **LOOKS[name]})
    axis.set_yscale("log")
    axis.set_title(row.label, fontsize="medium", loc="left", pad=16)
    axis.text(0, 1.02, row.about, transform=axis.transAxes, fontsize="x-small", color="0.3")
    if text := infinite(row):
        axis.text(0.5, 0.5, text, transform=axis.transAxes, fontsize="small", ha="center", va="center", wrap=True)
    axis.grid(alpha=0.3, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)


def _title(rows: Sequence[PrivacyCurves]) -> str:
    """What is left out, and what is a mean."""
    seeds = max(row.seeds for row in rows)
    parts = [f"the first {PANELS} of {len(rows)} rows"] if len(rows) > PANELS else []
    return "; ".join([*parts, f"mean over {seeds} seeds"] if seeds > 1 else parts)
