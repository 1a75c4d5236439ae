"""The idx format of MNIST and similar data sets, plain or compressed."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.formats.files import check_length, read_at_most, reading

UNSIGNED_BYTE, INTEGER = 8, 12
DTYPES: dict[int, np.dtype[Any]] = {UNSIGNED_BYTE: np.dtype("u1"), INTEGER: np.dtype(">i4")}
LARGEST = 1 << 28  # bytes; MNIST's images have 47 million


def read_idx(path: Path, dimensions: int, kind: int = UNSIGNED_BYTE, most: int = LARGEST) -> NDArray[Any]:
    """Read an idx file of unsigned bytes or 4-byte integers with this many dimensions (images 3, labels 1).

    Raises UserError if it is missing, not idx, truncated, longer than its header says, or larger than `most` bytes.
    """
    with reading(path) as file:
        header = file.read(4 + 4 * dimensions)
        if header[:4] != bytes([0, 0, kind, dimensions]):
            numbers = "bytes" if kind == UNSIGNED_BYTE else "integers"
            raise UserError(
                f"{path}: not an idx file of {dimensions}-dimensional {numbers}: must begin with "
                f"0000{kind:02x}{dimensions:02x}, got {header[:4].hex() or 'an empty file'}"
            )
        if len(header) < 4 + 4 * dimensions:
            raise UserError(f"{path}: truncated within its header; get the file again")
        shape = struct.unpack(f">{dimensions}I", header[4:])
        length = math.prod(shape) * DTYPES[kind].itemsize
        # The header is not trusted. At most one byte more than it declares is read, and at most `most` in total, since
        # a small compressed file may contain any declared length.
        body = read_at_most(file, min(length, most) + 1)
    if len(body) > most:
        raise UserError(f"{path}: declares an array of shape {shape}, which is too large; get the file again")
    check_length(path, body, length)
    try:
        return np.frombuffer(body, dtype=DTYPES[kind]).reshape(shape)
    except ValueError:  # a dimension is 0 and the others overflow
        raise UserError(f"{path}: invalid shape {shape}; get the file again") from None
