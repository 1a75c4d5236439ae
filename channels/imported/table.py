"""Tables of numbers in CSV files: a header with the names of the columns, then one row of numbers a line."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from channels.draws import Array
from channels.recorded.mapping import Ids
from channels.recorded.opening import readable, regular_file
from channels.recorded.source import RecordingError

MOST_VALUES = 200_000_000
LONGEST_LINE = 10_000
"""Largest number of characters in a line."""
MOST_COLUMNS = 100
BLOCK_ROWS = 1 << 16
"""Number of rows that are read at a time."""


def read_table(path: Path, known: Sequence[str]) -> dict[str, Array]:
    """Return the columns of a table as float64 by name; an empty cell is NaN.

    Args:
        path: The file, in UTF-8, with commas or semicolons; lines that begin with # are skipped.
        known: The columns that are understood.

    Raises RecordingError, with the line, for unknown columns, lines of another length, and cells that are no numbers.
    """
    parts, count = [], 0
    for part in read_blocks(path, known):
        parts.append(part)
        count += sum(map(len, part.values()))
        if count > MOST_VALUES:
            raise RecordingError(f"has more than {MOST_VALUES:,} cells; use kind npy")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_blocks(path: Path, known: Sequence[str], rows: int = BLOCK_ROWS) -> Iterator[dict[str, Array]]:
    """Yield the columns of a table as `read_table` does, so many rows at a time. Raises RecordingError as it does."""
    regular_file(path)
    heading: list[str] = []
    values, empty = array("d"), True

    def taken() -> dict[str, Array]:
        table = np.frombuffer(values).reshape(-1, len(heading))
        return {name: table[:, column] for column, name in enumerate(heading)}

    with readable("CSV file"), open(path, encoding="utf-8-sig", newline="") as file:
        for number, line in _lines(file):
            separator = ";" if ";" in line and "," not in line else ","
            cells = [one.strip() for one in next(csv.reader([line], delimiter=separator))]
            if not heading:
                heading = cells
                _check_heading(heading, known)
                continue
            if len(cells) != len(heading):
                raise RecordingError(f"line {number} has {len(cells)} cells, but the header has {len(heading)}")
            for name, cell in zip(heading, cells, strict=True):
                try:
                    values.append(float(cell) if cell else np.nan)
                except ValueError:
                    raise RecordingError(f"line {number}, {name}: {cell[:40]!r} is not a number") from None
            if len(values) >= rows * len(heading):
                yield taken()
                values, empty = array("d"), False
        if values:
            yield taken()
        elif empty:
            raise RecordingError("has no rows of numbers below a header")


def _lines(file: TextIO) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, numbered from 1."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise RecordingError(f"line {number} has more than {LONGEST_LINE:,} characters")
        if line.strip() and not line.startswith("#"):
            yield number, line.rstrip("\r\n")


def _check_heading(heading: Sequence[str], known: Sequence[str]) -> None:
    if len(heading) > MOST_COLUMNS:
        raise RecordingError(f"has {len(heading)} columns, at most {MOST_COLUMNS} are read")
    unknown = [name for name in heading if name not in known]
    if unknown:
        raise RecordingError(f"unknown column {unknown[0][:40]!r}; the columns may be {', '.join(known)}")
    if len(set(heading)) != len(heading):
        raise RecordingError("names a column twice")


def indices(column: Array, name: str, most: int = 1 << 31) -> Ids:
    """Return a column of counts from 0 as integers. Raises RecordingError for anything else."""
    whole = np.isfinite(column) & (column == np.floor(column)) & (column >= 0) & (column < most)
    if not whole.all():
        raise RecordingError(f"{name} must be whole numbers from 0, got {column[~whole][0]:g}")
    return column.astype(np.int64)
