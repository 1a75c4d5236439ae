"""Compares the tables of a run with those of its bundle, which are files from outside."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from airfl.exports import csv as tables
from airfl.exports.tolerances import EQUAL, Tolerance, first_round_off, off_by
from airfl.storage.bundle import RUNS, Bundle

LONGEST_LINE = 1 << 16
"""Most characters in a line of a table."""
TABLES = tuple(name for name in tables.FILES if name.endswith(".csv"))


@dataclass(frozen=True)
class Compared:
    """A variable of a repeated run that is not equal bit for bit to that of the bundle.

    Attributes:
        variable: Its name.
        tolerance: How far it may be off.
        difference: The difference over its tolerance, where up to 1 is accepted; inf where a value is missing or not
            finite in one of the two; nan for signals, of which the bundle has only the digest.
        first_round: The first round with a value that is off by more than the tolerance; None if there is none, or for
            a variable without rounds.
    """

    variable: str
    tolerance: Tolerance
    difference: float
    first_round: int | None = None

    @property
    def is_within(self) -> bool:
        """Whether the difference is within the tolerance. Signals always are, as only their digests are known."""
        return not self.difference > 1.0


def compare_tables(bundle: Bundle, name: str, folder: Path, tolerances: Mapping[str, Tolerance]) -> list[Compared]:
    """Return the variables whose values in the tables of the bundle are not those of the repeated run.

    Args:
        bundle: The bundle.
        name: Name of the run in it.
        folder: The folder with the tables of the repeated run, as `airfl.exports.csv` writes them.
        tolerances: The tolerance of each variable.

    Raises UserError if a table of the bundle is damaged.
    """
    found: dict[str, Compared] = {}
    for table in TABLES:
        with (folder / table).open(newline="", encoding="utf-8") as file:
            now = _columns(file, math.inf)
        rows = len(next(iter(now.values()))) if now else 0
        with bundle.open(f"{RUNS}/{name}/{table}") as raw:
            try:
                before = _columns(_Lines(raw, bundle), rows)
            except (csv.Error, ValueError) as error:
                raise bundle.refused(f"the table {table} of the run {name}: {error}") from None
        for variable, (new, old) in _variables(now, before).items():
            allowed = tolerances.get(variable, EQUAL)
            if new is None or old is None or new.shape != old.shape:
                found[variable] = Compared(variable, allowed, math.inf)
            elif not np.array_equal(new, old, equal_nan=True):
                rounds = before.get("round")
                first = None if rounds is None else first_round_off(new, old, allowed, rounds)
                found[variable] = Compared(variable, allowed, off_by(new, old, allowed), first)
    return list(found.values())


class _Lines:
    """The lines of a table in a bundle, each of bounded length."""

    def __init__(self, file: IO[bytes], bundle: Bundle) -> None:
        self._file, self._bundle = file, bundle

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(LONGEST_LINE + 1)
        if not line:
            raise StopIteration
        if len(line) > LONGEST_LINE:
            raise self._bundle.refused("a table has a line that is too long")
        return line.decode("utf-8", "replace")


def _columns(lines: Iterable[str], most: float) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a table as numbers, with nan for a cell that is not a number.

    Args:
        lines: The lines of the table, of which the first has the names of the columns.
        most: Reading stops after one row more than this.

    Raises ValueError for a row of another length. Otherwise a few bytes could take the memory of a long row.
    """
    reader = csv.reader(lines)
    names = next(reader, [])
    rows: list[list[float]] = []
    for row in reader:
        if len(row) != len(names):
            raise ValueError(f"a row has {len(row)} cells, and there are {len(names)} columns")
        rows.append([_number(cell) for cell in row])
        if len(rows) > most:
            break
    values = np.array(rows, dtype=float).reshape(len(rows), len(names))
    return {name: values[:, index] for index, name in enumerate(names)}


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


Pair = tuple[NDArray[Any] | None, NDArray[Any] | None]


def _variables(now: Mapping[str, NDArray[Any]], before: Mapping[str, NDArray[Any]]) -> dict[str, Pair]:
    """Return the values of each variable, now and before; the two columns of a complex one together."""
    return {
        variable: (_of(now, variable), _of(before, variable))
        for variable in dict.fromkeys(_variable(column, {*now, *before}) for column in (*now, *before))
    }


def _variable(column: str, columns: set[str]) -> str:
    base = column.removesuffix("_re").removesuffix("_im")
    return base if {f"{base}_re", f"{base}_im"} <= columns else column


def _of(columns: Mapping[str, NDArray[Any]], variable: str) -> NDArray[Any] | None:
    if variable in columns:
        return columns[variable]
    real, imaginary = columns.get(f"{variable}_re"), columns.get(f"{variable}_im")
    return None if real is None or imaginary is None else real + 1j * imaginary
