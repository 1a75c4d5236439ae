"""Reader of MATLAB's level 5 MAT files (MathWorks, "MAT-File Format", chapter 1): numeric arrays, block by block.

Files are little-endian, compressed or not. Only the requested variables are decoded, and none of an unexpected size.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.formats.files import BLOCK_BYTES, reading

HEADER_BYTES, VERSION_AND_ORDER = 128, b"\x00\x01IM"
MATRIX, COMPRESSED = 14, 15
NUMERIC_CLASSES = range(6, 16)  # double to uint64; lower numbers are cells, structures, objects, text and sparse arrays
COMPLEX = 0x0800
DTYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
LONGEST_ELEMENT = 1024  # flags, lengths and names are short
MOST_BESIDES = 64 << 20  # bytes of other variables; a compressed file may hold any number of them

Read = Callable[[int], bytes]  # returns exactly so many bytes, else raises EOFError


@dataclass(frozen=True)
class MatVariable:
    """An array that is being read.

    Attributes:
        shape: Its shape in MATLAB.
        dtype: The type that it is stored as.
        read: Returns the next so many bytes of its values, which are in MATLAB's order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Read

    def blocks(self, values: int) -> Iterator[NDArray[Any]]:
        """Yield all values in blocks of `values` (the last may be shorter); the first dimension varies fastest."""
        left = math.prod(self.shape)
        while left:
            count = min(values, left)
            yield np.frombuffer(self.read(count * self.dtype.itemsize), dtype=self.dtype)
            left -= count


def read_mat(path: Path, takers: Mapping[str, Callable[[MatVariable], None]]) -> None:
    """Pass every variable named in `takers` to its function, which checks the shape and consumes all blocks.

    Raises:
        UserError: If the file is missing, not of level 5, damaged or truncated, or if a variable is missing or is not a
            plain array of numbers.
    """
    lacking, besides = set(takers), 0
    with reading(path) as file:
        header = file.read(HEADER_BYTES)
        if header[-4:] != VERSION_AND_ORDER or len(header) < HEADER_BYTES:
            begins = repr(header[:10].decode("ascii", "backslashreplace")) if header else "an empty file"
            raise UserError(f"{path}: must be a little-endian MAT file of level 5, got {begins}; get the file again")
        while lacking and (tag := file.read(8)):
            if len(tag) < 8:
                raise EOFError("truncated")
            kind, size = struct.unpack("<II", tag)
            element = _Element(file, size, packed=kind == COMPRESSED)
            if kind == COMPRESSED:
                kind, _ = struct.unpack("<II", element.read(8))
            if kind != MATRIX:
                raise UserError(f"{path}: variables must be arrays (kind 14), got kind {kind}; get the file again")
            name = _take(path, element, takers, lacking)
            lacking.discard(name)
            besides += 0 if name else size
            if besides > MOST_BESIDES:
                raise UserError(f"{path}: more than {MOST_BESIDES >> 20} MiB of other arrays in it; get the file again")
            element.finish(checked=name in takers)
    if lacking:
        raise UserError(f"{path}: missing array {min(lacking)}; get the file again")


def _take(path: Path, element: _Element, takers: Mapping[str, Callable[[MatVariable], None]], lacking: set[str]) -> str:
    """Pass the array in the element to its function if it is in `lacking`, and return its name, else ""."""
    flags, lengths, name_bytes = (_short(path, element.read) for _ in range(3))
    name = name_bytes.decode("ascii", "replace")
    if name not in lacking:
        return ""
    flag_word = int.from_bytes(flags[:4], "little")
    if flag_word & 0xFF not in NUMERIC_CLASSES or flag_word & COMPLEX or len(lengths) % 4:
        raise UserError(f"{path}: {name} is not a plain array of numbers; get the file again")
    shape = struct.unpack(f"<{len(lengths) // 4}i", lengths)
    kind, size, inline = _tag(element.read)
    if kind not in DTYPES or any(length < 0 for length in shape):
        raise UserError(f"{path}: {name} is not a plain array of numbers; get the file again")
    dtype = np.dtype(DTYPES[kind])
    if size != math.prod(shape) * dtype.itemsize:
        raise UserError(f"{path}: {name} of shape {str(shape)[:60]} has {size:,} bytes; get the file again")
    takers[name](MatVariable(shape, dtype, element.read if inline is None else lambda count: inline[:count]))
    return name


def _tag(read: Read) -> tuple[int, int, bytes | None]:
    """Return type and size in bytes of an element, and its content if the tag itself holds it (at most 4 bytes)."""
    word, rest = struct.unpack("<I4s", read(8))
    if word >> 16:
        if word >> 16 > len(rest):
            raise EOFError("truncated")
        return word & 0xFFFF, word >> 16, rest
    return word, int.from_bytes(rest, "little"), None


def _short(path: Path, read: Read) -> bytes:
    """Return the content of a short element; its padding to a multiple of 8 bytes is read too."""
    _, size, inline = _tag(read)
    if inline is not None:
        return inline[:size]
    if size > LONGEST_ELEMENT:
        raise UserError(f"{path}: {size:,} bytes where an array's name or shape should be; get the file again")
    return read(-(-size // 8) * 8)[:size]


class _Element:
    """The next `size` bytes of a file, decompressed if needed."""

    def __init__(self, file: IO[bytes], size: int, packed: bool) -> None:
        self._file, self._left = file, size
        self._inflate = zlib.decompressobj() if packed else None
        self._pending = b""  # compressed bytes that were read and are not decompressed yet

    def read(self, count: int) -> bytes:
        """Return exactly `count` bytes; raise EOFError if there are fewer. No more of the file is read than needed."""
        parts: list[bytes] = []
        while count:
            part = self._some(min(count, BLOCK_BYTES))
            if not part:
                raise EOFError("truncated")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _some(self, most: int) -> bytes:
        if self._inflate is None:
            return self._raw(most)
        while not self._inflate.eof:
            self._pending = self._pending or self._raw(BLOCK_BYTES)
            part = self._inflate.decompress(self._pending, most)
            exhausted = not self._pending
            self._pending = self._inflate.unconsumed_tail
            if part or exhausted:
                return part
        return b""

    def _raw(self, most: int) -> bytes:
        block = self._file.read(min(most, self._left))
        self._left -= len(block)
        return block

    def finish(self, *, checked: bool) -> None:
        """Skip to the end of the element. With `checked`, verify its padding and the checksum that follows."""
        if checked:
            self._check_rest()
        while self._left and self._raw(BLOCK_BYTES):
            pass
        if self._left and checked:
            raise EOFError("truncated")

    def _check_rest(self) -> None:
        if self._inflate is None:
            return
        rest = 0
        while part := self._some(8):
            rest += len(part)
            if rest >= 8:
                raise EOFError("longer than it says")
        if not self._inflate.eof:
            raise EOFError("truncated")
