"""LIBSVM's text format (Chang and Lin 2011): a line a sample, `label index:value ...`, indices from 1, ascending."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.tasks.datasets.formats.files import reading

LONGEST_LINE = 1 << 20


def read_libsvm(path: Path, rows: int, features: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Labels [rows] and inputs [rows, features]: uint8 where all values are 0 or 1, else float32.

    Raises UserError, with the line's number, for a bad number, an index that is out of range or does not ascend, a
    file that is cut off or has another number of rows.
    """
    labels, inputs = np.zeros(rows), np.zeros((rows, features), dtype=np.float32)
    row = 0
    with reading(path) as file:
        while line := file.readline(LONGEST_LINE):
            if row == rows:
                raise UserError(f"{path}: more than {rows:,} rows; get the file again")
            try:
                labels[row] = _parse(line, inputs[row])
            except ValueError as error:
                raise UserError(f"{path}: line {row + 1:,}: {error}; get the file again") from None
            row += 1
    if row != rows:
        raise UserError(f"{path}: {row:,} rows, {rows:,} are wanted; get the file again")
    binary = np.all((inputs == 0) | (inputs == 1))
    return labels, inputs.astype(np.uint8) if binary else inputs


def _parse(line: bytes, into: NDArray[np.float32]) -> float:
    """The label of a line, whose values are written into a row of zeros; ValueError says what is wrong."""
    if not line.endswith(b"\n"):
        raise ValueError("cut off, or longer than 1 MiB")
    words = line.decode("ascii", "replace").split()
    if not words:
        raise ValueError("it is empty")
    last = 0
    for word in words[1:]:
        index_text, colon, value = word.partition(":")
        if not (colon and index_text.isdecimal() and len(index_text) < 10):
            raise ValueError(f"{word[:40]!r} is not index:value")
        index = int(index_text)
        if not 1 <= index <= len(into):
            raise ValueError(f"index {index}, 1 to {len(into)} are allowed")
        if index <= last:
            raise ValueError(f"index {index} after {last}; indices must ascend")
        into[index - 1] = _number(value)
        last = index
    return _number(words[0])


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # 3.4e38 is where float32 ends.
    if not abs(value) < 3.4e38 or "_" in text:
        raise ValueError(f"{text[:40]!r} is not a number")
    return value
