"""MATLAB's MAT files of level 5 (MathWorks, "MAT-File Format", chapter 1): plain arrays of numbers, a block at a time.

Little-endian, compressed or not. Nothing but the variables asked for is decoded, and none of a size not asked for.
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
from airfl.tasks.datasets.formats.files import BLOCK_BYTES, reading

HEADER_BYTES, VERSION_AND_ORDER = 128, b"\x00\x01IM"
MATRIX, COMPRESSED = 14, 15
NUMERIC_CLASSES = range(6, 16)  # double to uint64; below are cells, structures, objects, text and sparse arrays
COMPLEX = 0x0800
DTYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
LONGEST_ELEMENT = 1024  # flags, lengths and names are short
MOST_BESIDES = 64 << 20  # bytes of variables that are not asked for: what is packed once more may hold any number

Read = Callable[[int], bytes]  # exactly so many bytes, else EOFError


@dataclass(frozen=True)
class Variable:
    """An array on its way in.

    Attributes:
        shape: Its shape in MATLAB.
        dtype: The type that it is stored as.
        read: Reads so many bytes more of its values, which are in MATLAB's order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Read

    def blocks(self, values: int) -> Iterator[NDArray[Any]]:
        """All values, so many at a time (the last block may be shorter); the first dimension runs fastest."""
        left = math.prod(self.shape)
        while left:
            count = min(values, left)
            yield np.frombuffer(self.read(count * self.dtype.itemsize), dtype=self.dtype)
            left -= count


def read_mat(path: Path, takers: Mapping[str, Callable[[Variable], None]]) -> None:
    """Hand every variable named in `takers` to its taker, which checks the shape and takes all blocks.

    Raises UserError if the file is missing, not of level 5, damaged or cut off, or a variable is not there or is no
    plain array of numbers.
    """
    lacking, besides = set(takers), 0
    with reading(path) as file:
        header = file.read(HEADER_BYTES)
        if header[-4:] != VERSION_AND_ORDER or len(header) < HEADER_BYTES:
            begins = header[:10].decode("ascii", "backslashreplace") if header else "with nothing"
            raise UserError(f"{path}: not a little-endian MAT file of level 5 (begins {begins!r}); get the file again")
        while lacking and (tag := file.read(8)):
            if len(tag) < 8:
                raise EOFError("cut off")
            kind, size = struct.unpack("<II", tag)
            element = _Element(file, size, packed=kind == COMPRESSED)
            if kind == COMPRESSED:
                kind, _ = struct.unpack("<II", element.read(8))
            if kind != MATRIX:
                raise UserError(f"{path}: a variable of kind {kind}, arrays (14) are wanted; get the file again")
            name = _take(path, element, takers, lacking)
            lacking.discard(name)
            besides += 0 if name else size
            if besides > MOST_BESIDES:
                raise UserError(f"{path}: more than {MOST_BESIDES >> 20} MiB of other arrays in it; get the file again")
            element.finish(checked=name in takers)
    if lacking:
        raise UserError(f"{path}: there is no array {min(lacking)} in it; get the file again")


def _take(path: Path, element: _Element, takers: Mapping[str, Callable[[Variable], None]], lacking: set[str]) -> str:
    """The name of the array in the element, which is handed on if it is one of those lacking."""
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
    takers[name](Variable(shape, dtype, element.read if inline is None else lambda count: inline[:count]))
    return name


def _tag(read: Read) -> tuple[int, int, bytes | None]:
    """Type and bytes of an element, and its content where that is in the tag itself (4 bytes at most)."""
    word, rest = struct.unpack("<I4s", read(8))
    if word >> 16:
        if word >> 16 > len(rest):
            raise EOFError("cut off")
        return word & 0xFFFF, word >> 16, rest
    return word, int.from_bytes(rest, "little"), None


def _short(path: Path, read: Read) -> bytes:
    """The content of a short element, read with what fills it up to a multiple of 8."""
    _, size, inline = _tag(read)
    if inline is not None:
        return inline[:size]
    if size > LONGEST_ELEMENT:
        raise UserError(f"{path}: {size:,} bytes where an array's name or shape should be; get the file again")
    return read(-(-size // 8) * 8)[:size]


class _Element:
    """The `size` bytes of a file that come next, unpacked if need be."""

    def __init__(self, file: IO[bytes], size: int, packed: bool) -> None:
        self._file, self._left = file, size
        self._inflate = zlib.decompressobj() if packed else None
        self._pending = b""  # packed bytes that were read and are not unpacked yet

    def read(self, count: int) -> bytes:
        """Exactly so many bytes, never more of the file than they take; EOFError if there are fewer."""
        parts: list[bytes] = []
        while count:
            part = self._some(min(count, BLOCK_BYTES))
            if not part:
                raise EOFError("cut off")
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
        """Go to the end; where the content was taken, what fills it up and the checksum behind it are looked at."""
        if checked:
            self._check_rest()
        while self._left and self._raw(BLOCK_BYTES):
            pass
        if self._left and checked:
            raise EOFError("cut off")

    def _check_rest(self) -> None:
        if self._inflate is None:
            return
        rest = 0
        while part := self._some(8):
            rest += len(part)
            if rest >= 8:
                raise EOFError("longer than it says")
        if not self._inflate.eof:
            raise EOFError("cut off")
