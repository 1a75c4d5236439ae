"""Files of NumPy, .npy and .npz: read in a process of their own, of which only the numbers that are wanted come back.

Nothing is unpickled. A header is bounded (`MOST_HEADER`), and what it says is held against the bytes that are there
before any memory is taken by it.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from channels.isolated.child import answer, call

MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK"
SUFFIX = ".npy"
MOST_HEADER = 10_000
"""Letters of a header: numpy evaluates it as a literal."""
MOST_ARRAYS = 1000
READ_BYTES = 1 << 20

Described = tuple[str, tuple[int, ...], np.dtype[Any] | None]
"""Name, shape, kind of number; None for what is no array that is read."""


def is_numpy(path: Path) -> bool:
    """Whether the file begins as .npy or .npz does."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)).startswith((MAGIC, ZIP_MAGIC))


def arrays(path: str | Path) -> list[Described]:
    """What the file holds; a .npy file one array, whose name is "". IsolatedError where it cannot be read."""
    found = json.loads(call(__name__, str(Path(path).resolve())))
    return [(name, tuple(shape), _dtype(described)) for name, shape, described in found]


def array(path: str | Path, name: str, cut: tuple[slice, ...]) -> NDArray[Any]:
    """The part of this array from 0 to the ends of `cut`. IsolatedError where it cannot be read."""
    ends = ",".join(str(one.stop) for one in cut)
    return np.asarray(np.load(io.BytesIO(call(__name__, str(Path(path).resolve()), name, ends)), allow_pickle=False))


def main(path: str, name: str | None = None, ends: str = "") -> bytes:
    """JSON of the arrays, or .npy of the part of one that is wanted."""
    if name is None:
        return json.dumps(_list(path)).encode()
    values = _packed(path, name) if name else _plain(path)
    written = io.BytesIO()
    part = values[tuple(slice(int(end)) for end in ends.split(","))]
    np.save(written, np.ascontiguousarray(part), allow_pickle=False)
    return written.getvalue()


def _list(path: str) -> list[tuple[str, tuple[int, ...], Any]]:
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            file.seek(0)
            shape, _, dtype = _header(file)
            return [("", shape, _described(dtype))]
    found: list[tuple[str, tuple[int, ...], Any]] = []
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MOST_ARRAYS:
            raise ValueError(f"{len(members):,} arrays, at most {MOST_ARRAYS:,} are read")
        for member in members:
            if not member.filename.endswith(SUFFIX):
                found.append((member.filename, (), None))
                continue
            with archive.open(member) as stream:
                shape, _, dtype = _header(stream)
            found.append((member.filename.removesuffix(SUFFIX), shape, _described(dtype)))
    return found


def _plain(path: str) -> NDArray[Any]:
    """The array of a .npy file, as it lies on the disk."""
    with open(path, "rb") as file:
        shape, fortran, dtype = _header(file)
        begin, size = file.tell(), file.seek(0, io.SEEK_END)
    _check_size(shape, dtype, size - begin)
    return np.memmap(path, dtype, "r", begin, shape, "F" if fortran else "C") if math.prod(shape) else np.empty(shape)


def _packed(path: str, name: str) -> NDArray[Any]:
    """The array of this name in a .npz file, unpacked."""
    with zipfile.ZipFile(path) as archive, archive.open(name + SUFFIX) as stream:
        shape, fortran, dtype = _header(stream)
        wanted = math.prod(shape) * dtype.itemsize
        data = bytearray()
        while len(data) <= wanted and (read := stream.read(READ_BYTES)):
            data += read
    _check_size(shape, dtype, len(data))
    return np.frombuffer(data, dtype, math.prod(shape)).reshape(shape, order="F" if fortran else "C")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the first axis runs fastest, kind of number."""
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(stream, MOST_HEADER)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(stream, MOST_HEADER)
    else:
        raise ValueError(f"version {version[0]}.{version[1]} of .npy, 1.0 and 2.0 are read")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"a shape {shape}")
    return shape, fortran, dtype


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any], there: int) -> None:
    """Pickles, and an array that its file does not hold, are no numbers."""
    if dtype.hasobject:
        raise ValueError("objects, which are not unpickled")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted != there:
        raise ValueError(
            f"{wanted:,} bytes of numbers are announced, {'fewer' if there < wanted else 'more'} are there"
        )


def _described(dtype: np.dtype[Any]) -> Any:
    """For JSON: a number's type, the fields of a record; None for anything else."""
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
