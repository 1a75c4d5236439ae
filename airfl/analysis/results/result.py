"""Finished runs, groups of runs that differ only in their seed, and how their settings are displayed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.averages import average, epsilon_of_seeds
from airfl.analysis.results.digest import Digest
from airfl.analysis.results.plots import column_of, lines_of
from airfl.analysis.results.tidy import frame, table_value
from airfl.analysis.results.units import check_one_unit
from airfl.config.json_numbers import to_json
from airfl.errors import UserError
from airfl.runtime.notebook.html import html_table
from airfl.runtime.notebook.plots import Line, in_plotly, on_axes
from airfl.runtime.notebook.style import Style
from airfl.runtime.text import brief

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Result:
    """A run and its figures.

    Attributes:
        folder: The run folder.
        label: Label of its row, "" without rows.
        values: Values of the axes by dotted key, None for a setting that its scheme does not have.
        seed: run.seed.
        digest: The run's summary, settings, and figures at the evaluated rounds.
        asked: `values` as requested by the sweep, including settings that the scheme does not have.
        source: The folder passed to `read_results` in which the run was found.
    """

    folder: Path
    label: str
    values: Mapping[str, Any]
    seed: int
    digest: Digest
    asked: Mapping[str, Any] = field(default_factory=dict)
    source: Path | None = None

    def __repr__(self) -> str:
        what = {"label": self.label} if self.label else {}
        accuracy = self.digest.summary.test_accuracy
        return brief(self, **what, **self.values, seed=self.seed, test_accuracy=accuracy, folder=self.folder)


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed.

    Attributes:
        name: Name that distinguishes the group from others.
        label: Label of their row, "" without rows.
        values: Values of the axes by dotted key, None for a setting that the scheme does not have.
        runs: The runs in the order of their seeds.
        repeats: Further runs of those seeds that differ only in a setting that the scheme does not have.
    """

    name: str
    label: str
    values: Mapping[str, Any]
    runs: tuple[Result, ...]
    repeats: tuple[Result, ...] = ()

    def __repr__(self) -> str:
        return brief(self, name=self.name, runs=len(self.runs))

    @property
    def scheme(self) -> str:
        """The scheme of all runs."""
        return self.runs[0].digest.summary.scheme

    @property
    def link(self) -> str:
        """The link of all runs: analog, digital or ideal."""
        return self.runs[0].digest.link


@dataclass(frozen=True)
class Results:
    """A collection of runs. `groups` has runs with equal settings together, `frame()` is a table of all runs.

    Attributes:
        runs: The runs in the order of the sweep or comparison.
        axes: The swept keys; for several folders also other settings in which the runs differ.
        failed: Folder of a point -> why it failed.
        missing: Number of points that are neither finished nor failed.
        unreadable: Folder of a run -> why it is left out of `runs`.
        running: Name of a point -> the process that runs it, of those that share the folder (`--shard`). Such points
            count as missing, or as failed if they have failed before.
    """

    runs: tuple[Result, ...]
    axes: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    unreadable: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        left = {"failed": len(self.failed), "missing": self.missing, "unreadable": len(self.unreadable)}
        problems = {name: count for name, count in left.items() if count}
        return brief(self, runs=len(self.runs), groups=len(self.groups), axes=self.axes, **problems)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups in the order of their first runs."""
        return self._grouped([run.values for run in self.runs])

    @cached_property
    def points(self) -> tuple[Group, ...]:
        """The groups by requested values, which include settings that a scheme does not have."""
        return self._grouped([run.asked for run in self.runs])

    @property
    def pooled(self) -> bool:
        """Whether the runs are from several folders."""
        return len({run.source for run in self.runs}) > 1

    def left_of(self, folders: Iterable[str]) -> int:
        """Return how many of these run folders are neither of a finished run nor of a failed one."""
        ended = {*map(str, (run.folder for run in self.runs)), *self.failed, *self.unreadable}
        return sum(folder not in ended for folder in folders)

    def _grouped(self, values: Sequence[Mapping[str, Any]]) -> tuple[Group, ...]:
        together: dict[str, list[tuple[Result, Mapping[str, Any]]]] = {}
        for run, own in zip(self.runs, values, strict=True):
            together.setdefault(to_json([run.label, [own.get(key) for key in self.axes]]), []).append((run, own))
        groups = []
        for members in together.values():
            run, own = members[0]
            seeds: dict[int, Result] = {}
            for one, _ in members:
                seeds.setdefault(one.seed, one)
            once = tuple(seeds[seed] for seed in sorted(seeds))
            repeats = tuple(one for one, _ in members if one is not seeds[one.seed])
            groups.append(Group(self._name(run, own), run.label, own, once, repeats))
        return tuple(groups)

    def complete(self) -> Results:
        """Return the results without runs that did not complete."""
        return replace(self, runs=tuple(run for run in self.runs if run.digest.summary.status == "complete"))

    def frame(self) -> pd.DataFrame:
        """Return a table with one row per run: group, label, link, every swept key, the figures of its summary, and the
        metrics of a user-defined task. There are no timings, so that equal runs give equal tables."""
        rows = [row_of(group, run, self.axes) for group in self.groups for run in (*group.runs, *group.repeats)]
        return frame(rows, self.axes)

    def _repr_html_(self) -> str:
        """Return a table with one row per group, for notebooks."""
        rows = []
        for group in self.groups:
            summaries = [run.digest.summary for run in group.runs]
            figures = (
                [100 * one.test_accuracy for one in summaries],
                [one.energy for one in summaries],
                [float(one.resource_elements) for one in summaries],
            )
            shown = [f"{one.mean:.4g}" + _spread(one.deviation) for one in map(average, figures)]
            shown.append(f"{epsilon_of_seeds('epsilon', [one.epsilon for one in summaries]):.4g}")
            rows.append((group.name, len(summaries), *shown))
        problems = {"failed": len(self.failed), "missing": self.missing, "unreadable": len(self.unreadable)}
        counted = [f"{count:,} {name}" for name, count in problems.items() if count]
        headings = ("group", "seeds", "test accuracy %", "energy", "resource elements", "ε of the run")
        return html_table(", ".join([f"{len(self.runs):,} runs", *counted]), rows, headings)

    def plot(
        self,
        x: str | None = None,
        y: str = "test_accuracy",
        hue: str | None = None,
        ax: Axes | None = None,
        *,
        style: Style | None = None,
    ) -> Axes:
        """Draw a figure against a swept setting on Matplotlib axes, and return the axes.

        Points are means over seeds, and error bars sample standard deviations; of an epsilon, points are what bounds
        that of every seed: the largest of upper bounds, the least of lower bounds. Runs that differ in further swept
        keys have a line for each combination of these.

        Args:
            x: A column of `frame()`, such as "scheme.ratio" or "ratio"; by default the first swept key, or "label".
            y: A column of numbers, such as "test_accuracy", "energy" or "epsilon".
            hue: A column whose values have a line each; by default "label" if the runs have labels, else the second
                swept key if there is one.
            ax: The axes to draw on; None for a new figure.
            style: "ieee" for a new figure of one column of an IEEE paper; None for the current style of Matplotlib.

        Raises UserError for other names, and for energies in different units.
        """
        lines, along, shown = self._lines(x, y, hue)
        return on_axes(lines, along, shown, ax, style)

    def plotly(self, x: str | None = None, y: str = "test_accuracy", hue: str | None = None) -> Figure:
        """Return the same as an interactive Plotly figure; x, y and hue as in `plot`."""
        lines, along, shown = self._lines(x, y, hue)
        return in_plotly(lines, along, shown)

    def _lines(self, x: str | None, y: str, hue: str | None) -> tuple[list[Line], str, str]:
        """Return the lines of a plot and the labels of its axes."""
        table = self.frame()
        if table.empty:
            raise UserError("plot: there are no runs")
        labelled = any(run.label for run in self.runs)
        along = x or (self.axes[0] if self.axes else "label" if labelled else "group")
        along = column_of(table, "x", along, self.axes)
        if hue is None:
            others = [key for key in self.axes if key != along]
            hue = "label" if labelled and along != "label" else others[0] if others else None
        else:
            hue = column_of(table, "hue", hue, self.axes)
        value = column_of(table, "y", y, self.axes, numeric=True)
        if "energy" in (along, value):
            check_one_unit("plot", table["energy_units"])
        further = {key: short(key, self.axes) for key in self.axes} | ({"label": "row"} if labelled else {})
        told = {column: name for column, name in further.items() if column not in (along, hue)}
        return lines_of(table, along, value, hue, told), along, value

    def _name(self, run: Result, values: Mapping[str, Any]) -> str:
        """Return the name of a group: its label and values."""
        known = [key for key in self.axes if values.get(key) is not None]
        texts = [f"{short(key, self.axes)} = {plain(values[key])}" for key in known]
        return ", ".join(filter(None, [run.label, *texts])) or run.digest.summary.scheme


def _spread(deviation: float) -> str:
    return "" if math.isnan(deviation) else f" ± {deviation:.2g}"


def row_of(group: Group, run: Result, axes: Sequence[str]) -> dict[str, Any]:
    """Return a run's row of the table. A swept value that is neither a number nor text, such as a list, is written as
    JSON; one that the run's scheme does not have is empty."""
    return {
        "group": group.name,
        "folder": run.folder.name,
        "label": run.label,
        "link": run.digest.link,
        **{key: table_value(run.values.get(key)) for key in axes},
        **asdict(run.digest.summary),
        **run.digest.metrics,
    }


def short(key: str, among: Sequence[str]) -> str:
    """Return a dotted key without its section where that is unambiguous; scheme.name becomes scheme."""
    last = _last(key)
    return last if [_last(other) for other in among].count(last) == 1 else key


def _last(key: str) -> str:
    """Return the last part of a dotted key, or its section where the last part is "name"."""
    section, _, last = key.rpartition(".")
    return section if last == "name" else last


def plain(value: Any) -> str:
    """Return a setting's value as readable text."""
    return value if isinstance(value, str) else to_json(value).replace('"', "")


def cell(value: Any) -> str:
    """Return a setting's value as the text of a table cell, empty for None."""
    return "" if value is None else plain(value)


def number_of(value: Any) -> float:
    """Return a setting's value as a number, nan if it is not one."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
