"""The idx format of MNIST and its kin: plain or packed, checked before it is believed."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.tasks.datasets.formats.files import check_length, read_at_most, reading

UNSIGNED_BYTE, INTEGER = 8, 12
DTYPES: dict[int, np.dtype[Any]] = {UNSIGNED_BYTE: np.dtype("u1"), INTEGER: np.dtype(">i4")}
LARGEST = 1 << 28  # bytes; MNIST's pictures are 47 million


def read_idx(path: Path, dimensions: int, kind: int = UNSIGNED_BYTE, most: int = LARGEST) -> NDArray[Any]:
    """The array in an idx file with that many dimensions (images 3, labels 1), unsigned bytes or 4-byte integers.

    Raises UserError if the file is missing, not idx, cut off, longer than its header says or of more than `most` bytes.
    """
    with reading(path) as file:
        header = file.read(4 + 4 * dimensions)
        if header[:4] != bytes([0, 0, kind, dimensions]):
            numbers = "bytes" if kind == UNSIGNED_BYTE else "integers"
            raise UserError(
                f"{path}: not an idx file of {dimensions}-dimensional {numbers}: "
                f"begins {header[:4].hex() or 'with nothing'}, 0000{kind:02x}{dimensions:02x} is wanted"
            )
        if len(header) < 4 + 4 * dimensions:
            raise UserError(f"{path}: cut off within its header; get the file again")
        shape = struct.unpack(f">{dimensions}I", header[4:])
        wanted = math.prod(shape) * DTYPES[kind].itemsize
        # The header is not trusted with an allocation: read what is there, one byte more than is wanted at most, and
        # no more than anybody wants: a small packed file may hold as much as it announces.
        body = read_at_most(file, min(wanted, most) + 1)
    if len(body) > most:
        raise UserError(f"{path}: an array of shape {shape} announced, which is too large; get the file again")
    check_length(path, body, wanted)
    try:
        return np.frombuffer(body, dtype=DTYPES[kind]).reshape(shape)
    except ValueError:  # no data, whose other dimensions overflow
        raise UserError(f"{path}: an impossible shape {shape}; get the file again") from None
