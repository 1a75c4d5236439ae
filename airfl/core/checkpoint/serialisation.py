"""A binary format for named arrays and a JSON value, with a checksum. Reading it executes no code from the file.

Layout: MAGIC, total length and length of the header (8 bytes each, little-endian), header (JSON: the value; names,
dtypes and shapes of the arrays), the arrays one after another in C order, SHA-256 of all of this.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.memory import machine_bytes

MAGIC = b"airfl-checkpoint/1\n"
LENGTHS = 16
DIGEST = hashlib.sha256().digest_size
LARGEST, LONGEST_KIND = 1 << 40, 8
"""Largest length of an axis, and longest text of a dtype."""
KINDS = "biufc"
"""Kinds of dtypes that can be stored: booleans and numbers."""

Arrays = Mapping[str, NDArray[Any]]


class DamagedCheckpointError(Exception):
    """The bytes differ from those that were written."""


class CutOffError(DamagedCheckpointError):
    """There are fewer bytes than were to be written; perhaps the rest is still being written."""


def serialise(file: BinaryIO, value: Any, arrays: Arrays) -> int:
    """Append value and arrays to the file and return the number of bytes written. The arrays are not copied."""
    parts = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in parts.items():
        if array.dtype.kind not in KINDS:
            raise TypeError(f"{name}: arrays of {array.dtype} cannot be kept")
    listed = [[name, array.dtype.str, array.shape] for name, array in parts.items()]
    header = json.dumps({"value": value, "arrays": listed}).encode()
    total = len(MAGIC) + LENGTHS + len(header) + sum(array.nbytes for array in parts.values()) + DIGEST
    digest = hashlib.sha256()
    blocks: list[Any] = [array.reshape(-1).view(np.uint8) for array in parts.values()]
    for part in (MAGIC, total.to_bytes(8, "little"), len(header).to_bytes(8, "little"), header, *blocks):
        digest.update(part)
        file.write(part)
    file.write(digest.digest())
    return total


def deserialise(file: BinaryIO, room: int) -> tuple[Any, dict[str, NDArray[Any]], int]:
    """Return value, arrays and length of the pack that begins at the current position and ends within `room` bytes.

    The arrays are views of one block of memory, which is as large as the pack.

    Raises:
        DamagedCheckpointError: If there is no such pack, or it is damaged or larger than the memory of this machine.
        CutOffError: If a pack begins there that is longer than `room`.
    """
    before = len(MAGIC) + LENGTHS
    start = file.read(min(before, room))
    if len(start) < before or not start.startswith(MAGIC):
        begun = len(start) < before and MAGIC.startswith(start[: len(MAGIC)])
        raise (CutOffError if begun else DamagedCheckpointError)("is cut off, or no checkpoint")
    total = int.from_bytes(start[-LENGTHS:-8], "little")
    if not before + DIGEST <= total <= room:
        raise (CutOffError if total > room else DamagedCheckpointError)("is cut off, or damaged")
    if total > machine_bytes():
        raise DamagedCheckpointError(f"takes {total / 1e9:.3g} GB, more than this machine has")
    rest = file.read(total - before)
    digest = hashlib.sha256(start)
    digest.update(memoryview(rest)[:-DIGEST])
    if len(rest) < total - before or digest.digest() != rest[-DIGEST:]:
        raise DamagedCheckpointError("is damaged: its checksum is another")
    place = int.from_bytes(start[-8:], "little")
    try:
        value, arrays, place = _unpacked(rest, place)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        # The header can be invalid although the checksum is right, since anyone can compute a checksum.
        place = -1
    if place != len(rest) - DIGEST:
        raise DamagedCheckpointError("is damaged: what it says of itself is not what it holds")
    return value, arrays, total


def _unpacked(rest: bytes, place: int) -> tuple[Any, dict[str, NDArray[Any]], int]:
    """Return value, arrays and the position of their end.

    Raises ValueError, or another error that `deserialise` catches, if the header is invalid or does not fit the bytes.
    """
    if place > len(rest) - DIGEST:
        raise ValueError
    header = json.loads(rest[:place])
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind, shape in header["arrays"]:
        if not isinstance(name, str) or name in arrays or not isinstance(kind, str) or len(kind) > LONGEST_KIND:
            raise ValueError
        if not all(type(one) is int and 0 <= one <= LARGEST for one in shape):
            raise ValueError
        dtype, size = np.dtype(kind), math.prod(shape)
        end = place + size * dtype.itemsize
        if dtype.kind not in KINDS or end > len(rest) - DIGEST:
            raise ValueError
        arrays[name] = np.frombuffer(rest, dtype, size, place).reshape(shape) if size else np.empty(shape, dtype)
        place = end
    return header["value"], arrays, place
