"""Layout of legends outside the axes: as many columns as fit into the width of the figure, and long labels wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

POINTS = 72  # per inch
SAFE = 0.98
"""Safety factor, since rasterised letters are slightly wider than their outlines."""


@dataclass(frozen=True)
class LegendLayout:
    """The layout of a legend that fits the width of its figure.

    Attributes:
        labels: The labels, with long ones wrapped.
        columns: Number of columns.
        lines: Number of text lines in the highest column.
    """

    labels: tuple[str, ...]
    columns: int
    lines: int


def legend_layout(labels: Sequence[str], room: float, most: int | None = None) -> LegendLayout:
    """Lay out a legend in matplotlib's current style, in as many columns as fit.

    Args:
        labels: The labels. Matplotlib fills one column after the other.
        room: The available width in inches.
        most: The largest number of columns; None for no limit.
    """
    from matplotlib import rcParams

    size = _font().get_size_in_points() / POINTS
    handle = size * (rcParams["legend.handlelength"] + rcParams["legend.handletextpad"])
    between = size * rcParams["legend.columnspacing"]
    room = SAFE * room - 2 * size * (rcParams["legend.borderpad"] + rcParams["legend.borderaxespad"])
    wrapped = tuple(wrap(label, room - handle) for label in labels)
    widths = [_width(label) for label in wrapped]
    columns = 1
    for number in range(min(len(labels), most or len(labels)), 1, -1):
        parts = [max(part) for part in np.array_split(widths, number)]
        if sum(parts) + number * handle + (number - 1) * between <= room:
            columns = number
            break
    rows = -(-len(labels) // columns)
    # Use only as many columns as these rows need, so that the last one is not empty.
    columns = -(-len(labels) // rows)
    heights = [label.count("\n") + 1 for label in wrapped]
    lines = max(sum(int(height) for height in part) for part in np.array_split(heights, columns))
    return LegendLayout(wrapped, columns, lines)


def wrap(label: str, room: float) -> str:
    """Wrap a label so that no line is wider than `room` inches."""
    width = _width(label)
    if width <= room:
        return label
    letters = max(int(len(label) * room / width), 1)
    while True:
        # Lines are broken at ASCII white space only, which keeps "key = value" together.
        unbroken = label.replace(" = ", "\xa0=\xa0")
        text = textwrap.fill(unbroken, letters, break_on_hyphens=False).replace("\xa0", " ")
        if letters == 1 or _width(text) <= room:
            return text
        letters -= 1


def _font() -> FontProperties:
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=rcParams["font.family"], size=rcParams["legend.fontsize"])


def _width(label: str) -> float:
    """Return the width of the widest line of a label, in inches."""
    font = _font()
    return max(_points(line, font.get_name(), font.get_size_in_points()) for line in label.split("\n")) / POINTS


@lru_cache(maxsize=10_000)
def _points(line: str, family: str, size: float) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), line, prop=FontProperties(family=family, size=size)).get_extents().x1)
