"""The figures of results against a swept setting, as the lines of a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.analysis.results.averages import epsilon_of_seeds
from airfl.errors import UserError, unknown_name
from airfl.runtime.notebook.plots import Line

if TYPE_CHECKING:
    import pandas as pd


def lines_of(table: pd.DataFrame, x: str, y: str, hue: str | None, further: Mapping[str, str]) -> list[Line]:
    """Return one line per value of `hue`, and per combination of the further settings that its points differ in.

    A point is the mean over seeds with the sample standard deviation as error bar, or what bounds the epsilon of every
    seed, which has none.

    Args:
        table: One row per run.
        x: Column along the horizontal axis. Numbers are sorted, other values keep the order of the table.
        y: Column of numbers.
        hue: Column whose values have a line each; None for a single line.
        further: Columns of further settings that runs may differ in, with their names in labels.
    """
    lines: list[Line] = []
    for value, part in [("", table)] if hue is None else table.groupby(hue, sort=False, dropna=False):
        # Runs with the same x are seeds of one point only if no setting tells them apart.
        several = part.groupby(x)[list(further)].nunique(dropna=False).gt(1).any()
        apart = [column for column in further if several[column]]
        for values, seeds in part.groupby(apart, sort=False, dropna=False) if apart else [((), part)]:
            told = [f"{further[column]} = {one}" for column, one in zip(apart, values, strict=True) if one == one]
            label = ", ".join(filter(None, [str(value), *told]))
            lines.extend(_line(seeds, x, y, label))
    if not lines:
        raise UserError(f"y: no run has a {y} and a {x}; choose other columns of frame()")
    return lines


def _line(table: pd.DataFrame, x: str, y: str, label: str) -> Iterator[Line]:
    """Yield the line of runs that differ in x and in their seeds, if one of them has a y and an x."""
    bounds = y.startswith("epsilon")
    known = table.dropna(subset=[x] if bounds else [x, y])
    numeric = known[x].dtype.kind in "iuf"
    points = known.groupby(x, sort=numeric)[y]
    if bounds:
        means = points.agg(lambda values: float(epsilon_of_seeds(y, values.to_numpy()))).dropna()
        spread = None
    else:
        means = points.mean()
        spread = points.std().to_numpy(np.float64) if (points.count() > 1).any() else None
    if len(means):
        along: Sequence[Any] | np.ndarray = means.index.to_numpy() if numeric else [str(one) for one in means.index]
        yield Line(along, means.to_numpy(np.float64), label, spread)


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
