"""The figures of results against a swept setting, as the lines of a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.errors import UserError, unknown_name
from airfl.runtime.notebook.plots import Line

if TYPE_CHECKING:
    import pandas as pd


def lines_of(table: pd.DataFrame, x: str, y: str, hue: str | None) -> list[Line]:
    """Return one line per value of `hue`: the mean over seeds, and the sample standard deviation as error bars.

    Args:
        table: One row per run.
        x: Column along the horizontal axis. Numbers are sorted, other values keep the order of the table.
        y: Column of numbers.
        hue: Column whose values have a line each; None for a single line.
    """
    lines = []
    for label, part in [("", table)] if hue is None else table.groupby(hue, sort=False, dropna=False):
        known = part.dropna(subset=[x, y])
        numeric = known[x].dtype.kind in "iuf"
        means = known.groupby(x, sort=numeric)[y].agg(["mean", "std", "count"])
        if len(means):
            spread = means["std"].to_numpy(np.float64) if (means["count"] > 1).any() else None
            along: Sequence[Any] | np.ndarray = means.index.to_numpy() if numeric else [str(one) for one in means.index]
            lines.append(Line(along, means["mean"].to_numpy(np.float64), str(label), spread))
    if not lines:
        raise UserError(f"y: no run has a {y} and a {x}; choose other columns of frame()")
    return lines


def column_of(table: pd.DataFrame, what: str, given: str, axes: Sequence[str], numeric: bool = False) -> str:
    """Return the column with this name; a swept key may be given without its section.

    Args:
        table: One row per run.
        what: The argument, for the error.
        given: The name.
        axes: The swept keys.
        numeric: Whether the column must be of numbers.

    Raises UserError if there is no such column.
    """
    columns = [name for name in table.columns if not numeric or table[name].dtype.kind in "iuf"]
    ends = [key for key in axes if key in columns and key.rpartition(".")[2] == given]
    name = given if given in columns else ends[0] if len(ends) == 1 else None
    if name is None:
        raise UserError(unknown_name(what, given, columns))
    return name
