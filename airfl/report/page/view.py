"""The data that the sections of the page show: the groups, their names, how they are drawn, and their averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from airfl.analysis.results.averages import PERCENT, Average, average
from airfl.analysis.results.equal_cost import COSTS
from airfl.analysis.results.pool import SCHEME
from airfl.analysis.results.result import Group, Results, plain, short
from airfl.report.figures import COLOURS
from airfl.report.table import TableRow

MANY, BEST = 30, 20  # with more groups than MANY, only the curves of the BEST are drawn
DASHES = {
    "solid": "none",
    "dash": "7 4",
    "dashdot": "7 3 2 3",
    "dot": "2 3",
    "longdash": "11 4",
    "longdashdot": "11 3 2 3",
}
"""SVG's stroke-dasharray by plotly's name of a dash."""
SYMBOLS = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "triangle-down": "▼",
    "star": "★",
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """The look of a line or a kind of point: colour-blind safe, and distinguishable without colour too.

    Attributes:
        colour: Colour of line and points.
        dash: Dash of the line, one of `DASHES`.
        symbol: Symbol of the points, one of `SYMBOLS`.
    """

    colour: str
    dash: str
    symbol: str

    @property
    def pattern(self) -> str:
        """The dash as an SVG stroke-dasharray."""
        return DASHES[self.dash]

    @property
    def sign(self) -> str:
        """The symbol as a character."""
        return SYMBOLS[self.symbol]


@dataclass(frozen=True)
class PageView:
    """Results as the page shows them.

    Attributes:
        results: Groups of runs.
        folders: Folders as the user named them.
    """

    results: Results
    folders: tuple[Path, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, in the order in which they were requested."""
        return self.results.groups

    @cached_property
    def rows(self) -> list[TableRow]:
        """The groups as rows of the terminal's table."""
        return [TableRow(group.name, [run.digest.summary for run in group.runs]) for group in self.groups]

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The swept keys with a column of their own, without the scheme's name if that names the group."""
        named = any(group.label for group in self.groups)
        return tuple(key for key in self.results.axes if named or key != SCHEME)

    def short(self, key: str) -> str:
        """Return a swept key, without its section if that is unambiguous."""
        return short(key, self.results.axes)

    def kind(self, group: Group) -> str:
        """Return a group's name without its swept values: its label, else its scheme.

        Both are returned if schemes of several folders are shown together and the label does not name the scheme.
        """
        if self._schemes_pooled and group.scheme.casefold() not in group.label.casefold():
            return ", ".join(filter(None, [group.label, group.scheme]))
        return group.label or group.scheme

    @cached_property
    def _schemes_pooled(self) -> bool:
        return self.results.pooled and len({group.scheme for group in self.groups}) > 1

    def where(self, group: Group) -> str:
        """Return the group's swept values as text."""
        told = group.scheme in self.kind(group)
        known = [key for key in self.axes if group.values.get(key) is not None and not (told and key == SCHEME)]
        return ", ".join(f"{self.short(key)} = {plain(group.values[key])}" for key in known)

    def name(self, group: Group) -> str:
        """Return the group's kind and swept values as text."""
        return ", ".join(filter(None, [self.kind(group), self.where(group)]))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The different kinds of groups, in the order of the groups."""
        return tuple(dict.fromkeys(self.kind(group) for group in self.groups))

    @cached_property
    def accuracies(self) -> list[Average]:
        """Test accuracy (%) at the end of each group's runs."""
        return [
            average([100 * run.digest.summary.test_accuracy for run in group.runs], PERCENT) for group in self.groups
        ]

    @cached_property
    def best(self) -> list[int]:
        """The places of the groups that have curves: all, or the BEST by accuracy, in the order of the groups."""
        places = list(range(len(self.groups)))
        if len(places) <= MANY:
            return places
        by_accuracy = sorted(places, key=lambda place: -or_least(self.accuracies[place].mean))
        return sorted(by_accuracy[:BEST])

    @property
    def selection(self) -> str:
        """A sentence on which groups have curves; empty if all have."""
        if len(self.best) == len(self.groups):
            return ""
        return (
            f"Of {len(self.groups)} groups the {len(self.best)} with the highest accuracy are drawn; the table has all."
        )

    @cached_property
    def units(self) -> tuple[str, ...]:
        """The units of the runs' energies."""
        return tuple(dict.fromkeys(run.digest.summary.energy_units for run in self.results.runs))

    @cached_property
    def costs(self) -> dict[str, str]:
        """The costs in which groups can be compared, with their headings; energy only if all runs share one unit."""
        energy = f"energy ({self.units[0]})" if len(self.units) == 1 else ""
        return {
            name: energy if name == "energy" else text for name, text in COSTS.items() if name != "energy" or energy
        }


def look(number: int) -> Look:
    """Return the look of the line or kind with this number."""
    return Look(*(choices[number % len(choices)] for choices in (COLOURS, tuple(DASHES), tuple(SYMBOLS))))


def exactly(average: Average) -> str:
    """Return the mean in full precision, and what it is the mean of."""
    text = f"{average.mean!r}"
    if average.count < 2:
        return text
    text += f", mean of {average.count} seeds"
    if average.points:
        text += f": {average.points[0]!r} and {average.points[1]!r}"
    elif math.isfinite(average.deviation):
        text += f", deviation {average.deviation:.6g}, 95% interval {average.low:.6g} to {average.high:.6g}"
    return text


def spread(values: Sequence[float]) -> float:
    """Return the ratio of the largest to the smallest of the finite positive values; 1 if there are fewer than two."""
    positive = [float(value) for value in values if math.isfinite(value) and value > 0]
    return max(positive) / min(positive) if positive else 1.0


def or_least(value: float) -> float:
    """Return a number to sort by, with unknown values below all others."""
    return -math.inf if math.isnan(value) else value
