"""NumPy files (.npy and .npz), read in a separate process that returns only the requested numbers.

Nothing is unpickled. The length of a header is limited (`MAX_HEADER`), and the declared size is compared with the
bytes in the file before memory is allocated for it. Data that lies in the file as it is can be read by the caller, who
is told its place.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from channels.isolated.child import answer, call

MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK"
SUFFIX = ".npy"
MAX_HEADER = 10_000
"""Largest number of characters in a header, because numpy evaluates it as a literal."""
MAX_ARRAYS = 1000
READ_BYTES = 1 << 20
CHECKSUM = "checksum"
"""Request for a comparison of an array with its checksum, in place of the ends of a part."""

LOCAL_HEADER, NAME_LENGTHS = 30, slice(26, 30)
"""Length of the fixed part of a file's header in a ZIP archive, and the place of the lengths of name and extras."""
ENCRYPTED = 1


@dataclass(frozen=True)
class Place:
    """An array of the file.

    Attributes:
        name: Its name, "" in a .npy file.
        shape: Its shape.
        dtype: Its type; None for anything but a readable array.
        fortran: Whether it is in Fortran order.
        offset: Where its data begins in the file, in bytes; None if it is compressed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    fortran: bool
    offset: int | None


def is_numpy(path: Path) -> bool:
    """Whether the file starts like a .npy or .npz file."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)).startswith((MAGIC, ZIP_MAGIC))


def places(path: str | Path) -> list[Place]:
    """List the arrays of the file; a .npy file has one, named "". Raises IsolatedError if it cannot be read."""
    listed = json.loads(call(__name__, str(Path(path).resolve())))
    return [
        Place(name, tuple(shape), _dtype(described), fortran, offset)
        for name, shape, described, fortran, offset in listed
    ]


def verify(path: str | Path, name: str) -> None:
    """Read an array of a .npz file once to compare it with its checksum. Raises IsolatedError if it differs."""
    call(__name__, str(Path(path).resolve()), name, CHECKSUM)


def array(path: str | Path, name: str, cut: tuple[slice, ...]) -> NDArray[Any]:
    """Read the part of an array from 0 to the ends of `cut`. Raises IsolatedError if it cannot be read."""
    ends = ",".join(str(one.stop) for one in cut)
    return np.asarray(np.load(io.BytesIO(call(__name__, str(Path(path).resolve()), name, ends)), allow_pickle=False))


def main(path: str, name: str | None = None, ends: str = "") -> bytes:
    """Return a JSON list of the arrays, a part of one in .npy format, or nothing if its checksum fits."""
    if name is None:
        return json.dumps(_list(path)).encode()
    if ends == CHECKSUM:
        with zipfile.ZipFile(path) as archive, archive.open(name + SUFFIX) as stream:
            while stream.read(READ_BYTES):
                pass
        return b""
    values = _packed(path, name) if name else _plain(path)
    written = io.BytesIO()
    part = values[tuple(slice(int(end)) for end in ends.split(","))]
    np.save(written, np.ascontiguousarray(part), allow_pickle=False)
    return written.getvalue()


def _list(path: str) -> list[tuple[str, tuple[int, ...], Any, bool, int | None]]:
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            file.seek(0)
            shape, fortran, dtype = _header(file)
            begin, size = file.tell(), file.seek(0, io.SEEK_END)
            described = _described(dtype)
            if described is not None:
                _check_size(shape, dtype, size - begin)
            return [("", shape, described, fortran, begin)]
    listed: list[tuple[str, tuple[int, ...], Any, bool, int | None]] = []
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        members = archive.infolist()
        if len(members) > MAX_ARRAYS:
            raise ValueError(f"an archive must hold at most {MAX_ARRAYS:,} arrays, got {len(members):,}")
        for member in members:
            if not member.filename.endswith(SUFFIX):
                listed.append((member.filename, (), None, False, None))
                continue
            with archive.open(member) as stream:
                shape, fortran, dtype = _header(stream)
                header = stream.tell()
            offset = None
            if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & ENCRYPTED:
                described = _described(dtype)
                if described is not None:
                    _check_size(shape, dtype, member.file_size - header)
                file.seek(member.header_offset)
                lengths = file.read(LOCAL_HEADER)[NAME_LENGTHS]
                skipped = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
                offset = member.header_offset + LOCAL_HEADER + skipped + header
            listed.append((member.filename.removesuffix(SUFFIX), shape, _described(dtype), fortran, offset))
    return listed


def _plain(path: str) -> NDArray[Any]:
    """Map the array of a .npy file into memory."""
    with open(path, "rb") as file:
        shape, fortran, dtype = _header(file)
        begin, size = file.tell(), file.seek(0, io.SEEK_END)
    _check_size(shape, dtype, size - begin)
    return np.memmap(path, dtype, "r", begin, shape, "F" if fortran else "C") if math.prod(shape) else np.empty(shape)


def _packed(path: str, name: str) -> NDArray[Any]:
    """Decompress an array of a .npz file."""
    with zipfile.ZipFile(path) as archive, archive.open(name + SUFFIX) as stream:
        shape, fortran, dtype = _header(stream)
        declared = math.prod(shape) * dtype.itemsize
        data = bytearray()
        while len(data) <= declared and (read := stream.read(READ_BYTES)):
            data += read
    _check_size(shape, dtype, len(data))
    return np.frombuffer(data, dtype, math.prod(shape)).reshape(shape, order="F" if fortran else "C")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read a header: shape, whether the array is in Fortran order, and dtype."""
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(stream, MAX_HEADER)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(stream, MAX_HEADER)
    else:
        raise ValueError(f"the version of .npy must be 1.0 or 2.0, got {version[0]}.{version[1]}")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"invalid shape {shape}")
    return shape, fortran, dtype


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any], available: int) -> None:
    """Raise ValueError for pickled objects, and for an array whose declared size is not that of its data."""
    if dtype.hasobject:
        raise ValueError("objects, which are not unpickled")
    declared = math.prod(shape) * dtype.itemsize
    if declared != available:
        raise ValueError(f"{declared:,} bytes declared, the file has {'fewer' if available < declared else 'more'}")


def _described(dtype: np.dtype[Any]) -> Any:
    """Describe a dtype in JSON: the type of a number, the fields of a record, or None for anything else."""
    if dtype.names is None:
        return dtype.str if dtype.subdtype is None and not dtype.hasobject else None
    fields = [(name, dtype[name].str) for name in dtype.names]
    return fields if all(dtype[name].kind in "iufc" for name in dtype.names) else None


def _dtype(described: Any) -> np.dtype[Any] | None:
    if described is None:
        return None
    return np.dtype(described if isinstance(described, str) else [(name, kind) for name, kind in described])


if __name__ == "__main__":
    answer(main, "numpy")
