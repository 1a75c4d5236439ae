"""The result of tuning: the chosen values of every row, and the metric by which they were chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfl.analysis.results.averages import SHARE, Average, Bounds
from airfl.runtime.text import brief


@dataclass(frozen=True)
class Figure:
    """The metric that tuning optimises.

    Attributes:
        name: Its name: tuning uses `validation_NAME` of traces, and reports `test_NAME` for the chosen values.
        bounds: Its lower and upper bound.
        lowest: Whether smaller values are better.
    """

    name: str
    bounds: Bounds
    lowest: bool


ACCURACY = Figure("accuracy", SHARE, lowest=False)
LOSS = Figure("loss", (-math.inf, math.inf), lowest=True)
"""The metric for a task with its own loss, whose traces contain no accuracy."""


@dataclass(frozen=True)
class TunedRow:
    """A row to tune.

    Attributes:
        label: Its label in tables; "" if it is the only row.
        changes: The settings that it changes, by dotted key.
    """

    label: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Chosen:
    """The result of tuning a row.

    Attributes:
        row: The row.
        values: The chosen values by dotted key.
        validation: Accuracy on held-out training data over seeds, from 0 to 1, or the loss, by which they were chosen.
        test: The same on the test set over seeds, evaluated for these values only.
        tried: Number of settings of the row that were tried.
        edges: Keys whose chosen value is the smallest or largest tried, so that better ones may lie beyond.
        by: The metric: accuracy, or the loss if the task has its own.
        pruned: Number of these that were ended early, as their validation accuracy was low at equal rounds.
    """

    row: TunedRow
    values: Mapping[str, Any]
    validation: Average
    test: Average
    tried: int
    edges: tuple[str, ...]
    by: Figure = ACCURACY
    pruned: int = 0


@dataclass(frozen=True)
class Tuning:
    """The result of `airfl.tune`.

    Attributes:
        chosen: The result for each row, in order.
        file: A settings file with the chosen values, for `airfl.run` or, with several rows, `airfl.compare`.
    """

    chosen: tuple[Chosen, ...]
    file: Path

    def __repr__(self) -> str:
        return brief(self, chosen={one.row.label: dict(one.values) for one in self.chosen}, file=self.file)
