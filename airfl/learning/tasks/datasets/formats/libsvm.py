"""LIBSVM's text format (Chang and Lin 2011): one sample per line, `label index:value ...`, indices ascending from 1."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.formats.files import reading

LONGEST_LINE = 1 << 20


def read_libsvm(path: Path, rows: int, features: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Read labels [rows] and inputs [rows, features], uint8 if all values are 0 or 1, else float32.

    Raises UserError, with the line, for an invalid number, an index that is out of range or not ascending, and a file
    that is truncated or has another number of rows.
    """
    labels, inputs = np.zeros(rows), np.zeros((rows, features), dtype=np.float32)
    row = 0
    with reading(path) as file:
        while line := file.readline(LONGEST_LINE):
            if row == rows:
                raise UserError(f"{path}: must have {rows:,} rows, got more; get the file again")
            try:
                labels[row] = _parse(line, inputs[row])
            except ValueError as error:
                raise UserError(f"{path}: line {row + 1:,}: {error}; get the file again") from None
            row += 1
    if row != rows:
        raise UserError(f"{path}: must have {rows:,} rows, got {row:,}; get the file again")
    binary = np.all((inputs == 0) | (inputs == 1))
    return labels, inputs.astype(np.uint8) if binary else inputs


def _parse(line: bytes, into: NDArray[np.float32]) -> float:
    """Return the label of a line and write its values into a row of zeros; raises ValueError if it is invalid."""
    if not line.endswith(b"\n"):
        raise ValueError("truncated, or longer than 1 MiB")
    words = line.decode("ascii", "replace").split()
    if not words:
        raise ValueError("empty")
    last = 0
    for word in words[1:]:
        index_text, colon, value = word.partition(":")
        if not (colon and index_text.isdecimal() and len(index_text) < 10):
            raise ValueError(f"{word[:40]!r} is not index:value")
        index = int(index_text)
        if not 1 <= index <= len(into):
            raise ValueError(f"indices must be 1 to {len(into)}, got {index}")
        if index <= last:
            raise ValueError(f"indices must ascend, got {index} after {last}")
        into[index - 1] = _number(value)
        last = index
    return _number(words[0])


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # 3.4e38 is the largest float32.
    if not abs(value) < 3.4e38 or "_" in text:
        raise ValueError(f"{text[:40]!r} is not a number")
    return value
