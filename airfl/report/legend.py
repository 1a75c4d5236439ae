"""Legends outside of the axes, as wide as their figure at most: in columns that fit, long names in several lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

POINTS = 72  # an inch
SAFE = 0.98
"""Letters on a grid of dots are a little wider than as they are drawn."""


@dataclass(frozen=True)
class Fitted:
    """A legend that fits the width of its figure.

    Attributes:
        labels: As they are written, long ones in several lines.
        columns: In how many columns.
        lines: Lines of text in the highest column.
    """

    labels: tuple[str, ...]
    columns: int
    lines: int


def fitted(labels: Sequence[str], room: float, most: int | None = None) -> Fitted:
    """A legend in matplotlib's current style for a figure of so many inches, in the most columns (at most `most`) that
    there is room for; matplotlib fills one after the other."""
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
    # As many columns as so many rows need: the last one is not left empty.
    columns = -(-len(labels) // rows)
    heights = [label.count("\n") + 1 for label in wrapped]
    lines = max(sum(int(one) for one in part) for part in np.array_split(heights, columns))
    return Fitted(wrapped, columns, lines)


def wrap(label: str, room: float) -> str:
    """The label in as many lines as it takes for none to be wider than so many inches."""
    width = _width(label)
    if width <= room:
        return label
    letters = max(int(len(label) * room / width), 1)
    while True:
        # What a setting is stays beside it; only ASCII white space is broken at.
        kept = label.replace(" = ", "\xa0=\xa0")
        text = textwrap.fill(kept, letters, break_on_hyphens=False).replace("\xa0", " ")
        if letters == 1 or _width(text) <= room:
            return text
        letters -= 1


def _font() -> FontProperties:
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=rcParams["font.family"], size=rcParams["legend.fontsize"])


def _width(label: str) -> float:
    """Of the widest line of a text in a legend, in inches."""
    font = _font()
    return max(_points(line, font.get_name(), font.get_size_in_points()) for line in label.split("\n")) / POINTS


@lru_cache(maxsize=10_000)
def _points(line: str, family: str, size: float) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), line, prop=FontProperties(family=family, size=size)).get_extents().x1)
