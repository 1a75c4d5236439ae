"""The interface of a file of named arrays, and which reader opens a file."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_NAME = 60
MAX_RATIO, ROOM_BYTES = 100, 1 << 26
"""What is read of an array may take at most MAX_RATIO times the size of the file plus ROOM_BYTES."""
MAX_WHOLE = 1 << 30
"""Largest array in bytes that is read as a whole, because its format or compression has no parts."""


class RecordingError(Exception):
    """The file, or an array of it, is missing or unusable; the message does not name the file."""


class ChoiceError(RecordingError):
    """The choice of the variable is the problem."""


@dataclass(frozen=True, eq=False)
class Source(ABC):
    """A file of named arrays of numbers. Nothing is read of it but what is asked for.

    Attributes:
        path: The file.
        shapes: Shapes of the arrays of numbers by name, with the axes in the order of the user's tool.
        others: What the other variables are, in words, by name.
    """

    path: Path
    shapes: Mapping[str, tuple[int, ...]]
    others: Mapping[str, str]

    @abstractmethod
    def read(self, name: str, cut: tuple[slice, ...]) -> NDArray[Any]:
        """Return the part of an array between the starts and stops of `cut`, one slice for each axis."""

    def bytes_to_read(self, name: str, cut: tuple[slice, ...]) -> int:
        """Return the bytes that have to be held in memory to read that part, about."""
        del name
        return size_of(cut) * np.dtype(np.complex128).itemsize

    def check_room(self, name: str, cut: tuple[slice, ...]) -> None:
        """Raise RecordingError if the declared size is far beyond that of the file, before memory is allocated."""
        needed, size = self.bytes_to_read(name, cut), self.path.stat().st_size
        if needed > MAX_RATIO * size + ROOM_BYTES:
            raise RecordingError(
                f"{shown(name)!r} declares {needed / 1e6:,.0f} MB in a file of {size / 1e6:,.3f} MB; export it again, "
                "without compression"
            )

    def close(self) -> None:  # noqa: B027
        """Let go of the file; a later read opens it again."""

    def attribute(self, name: str) -> float:
        """Return a number or a truth value that describes the whole file; nan if there is none, as in formats without
        attributes."""
        del name
        return math.nan

    def small(self, name: str) -> NDArray[Any]:
        """Return a whole array that is small by its meaning, such as a list of frequencies."""
        cut = tuple(slice(0, length) for length in self.shapes[name])
        self.check_room(name, cut)
        return self.read(name, cut)


def size_of(cut: Sequence[slice]) -> int:
    """Return the number of values between the starts and stops of slices."""
    return math.prod(int(one.stop) - int(one.start or 0) for one in cut)


def open_source(path: Path) -> Source:
    """Open a file with the reader of its format. A damaged file may raise anything."""
    import h5py

    from channels.isolated.arrays import is_numpy

    if not path.stat().st_size:
        raise RecordingError("the file is empty (0 bytes); export it again")
    if h5py.is_hdf5(path):
        from channels.recorded.hdf5 import open_hdf5

        return open_hdf5(path)
    if is_numpy(path):
        from channels.recorded.numpy_files import open_numpy

        return open_numpy(path)
    from channels.recorded.mat import open_mat

    return open_mat(path)


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is real, complex, or a pair of fields that stands for a complex number."""
    if dtype.names is not None:
        return dtype.names in (("r", "i"), ("real", "imag")) and all(dtype[part].kind == "f" for part in dtype.names)
    return dtype.kind in "iufc"


def as_complex(values: NDArray[Any], *, double: bool) -> NDArray[np.complex64] | NDArray[np.complex128]:
    """Convert any number type to a contiguous complex array, in double precision if that is asked for or stored."""
    single = not double and (values.dtype == np.complex64 or (values.dtype.names and values.dtype.itemsize == 8))
    kind = np.complex64 if single else np.complex128
    if values.dtype.names is not None:
        pair = np.empty(values.shape, dtype=kind)
        pair.real, pair.imag = (values[part] for part in values.dtype.names)
        values = pair
    with np.errstate(all="ignore"):  # invalid numbers are reported with their position
        return np.ascontiguousarray(values, dtype=kind)  # type: ignore[return-value]


def listed(names: Sequence[str]) -> str:
    """Return names for a message, the first ten of them."""
    names = [shown(name) for name in names]
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if names else "none"


def shown(name: str) -> str:
    """Shorten a name for a message; the array of a .npy file has none."""
    name = name or "array"
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}..."
