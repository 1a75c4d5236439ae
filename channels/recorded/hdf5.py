"""HDF5 files, those of MATLAB 7.3 among them, read a part at a time."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.isolated.hdf5 import probe
from channels.recorded.matlab_axes import with_last_axes
from channels.recorded.source import RecordingError, Source, is_number, shown

MAX_CHUNK = 1 << 28
"""Largest chunk in bytes; a compressed one is read and unpacked as a whole."""


@dataclass(frozen=True, eq=False)
class Hdf5Source(Source):
    """An HDF5 file, which is opened by the first read.

    Attributes:
        reversed_axes: Names of arrays that MATLAB wrote, with the axes reversed.
    """

    reversed_axes: frozenset[str] = frozenset()
    _open: dict[int, Any] = field(default_factory=dict, repr=False)

    def read(self, name: str, cut: tuple[slice, ...]) -> NDArray[Any]:
        """Return a part of an array."""
        array = self._file[name]
        if name in self.reversed_axes:
            stored = cut[: len(array.shape)]  # without the axes that MATLAB has dropped
            part = np.asarray(array[stored[::-1]]).T
            return part.reshape(*part.shape, *(1 for _ in cut[len(stored) :]))
        return np.asarray(array[cut])

    def bytes_to_read(self, name: str, cut: tuple[slice, ...]) -> int:
        """Return the bytes of the part, or of one chunk, which is read as a whole."""
        array = self._file[name]
        chunk = int(array.dtype.itemsize) * math.prod(map(int, array.chunks or ()))
        return max(super().bytes_to_read(name, cut), chunk)

    def check_room(self, name: str, cut: tuple[slice, ...]) -> None:
        """Refuse sizes that are not believable, and chunks that do not fit in memory."""
        super().check_room(name, cut)
        array = self._file[name]
        chunk = int(array.dtype.itemsize) * math.prod(map(int, array.chunks or ()))
        if chunk > MAX_CHUNK:
            raise RecordingError(
                f"{shown(name)!r} has chunks of {chunk / 1e6:,.0f} MB, and each is read as a whole; write it with "
                f"chunks below {MAX_CHUNK / 1e6:,.0f} MB"
            )

    def attribute(self, name: str) -> float:
        """Return a number, or 1 for true and 0 for false, among the attributes of the file; nan if there is none."""
        value = self._file.attrs.get(name)
        number = np.asarray(math.nan if value is None else value)
        return float(number) if number.ndim == 0 and number.dtype.kind in "biuf" else math.nan

    def close(self) -> None:
        """Close the file; a later read opens it again."""
        if os.getpid() in self._open:
            self._open.pop(os.getpid()).close()

    @property
    def _file(self) -> Any:
        """The open file: one handle for each process, as handles do not survive a fork."""
        import h5py

        process = os.getpid()
        if process not in self._open:
            self._open.clear()
            self._open[process] = h5py.File(self.path, "r")
        return self._open[process]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}


def open_hdf5(path: Path) -> Hdf5Source:
    """Open an HDF5 file that has survived a trial in a process of its own. Links to other files are not followed."""
    import h5py

    probe(path)
    shapes: dict[str, tuple[int, ...]] = {}
    others: dict[str, str] = {}
    matlab: set[str] = set()

    def note(name: str, item: Any) -> None:
        # MATLAB stores the contents of cells and objects in groups whose names start with #.
        if not isinstance(item, h5py.Dataset) or name.startswith("#"):
            return
        kind = _text(item.attrs.get("MATLAB_class", ""))
        if item.shape is None:
            others[name] = "empty"
        elif item.external or item.is_virtual:
            others[name] = "stored in another file"
        elif not is_number(item.dtype) or kind in ("char", "logical", "cell"):
            others[name] = f"{kind or item.dtype}, not numbers"
        else:
            shapes[name] = tuple(reversed(item.shape)) if kind else item.shape
            if kind:
                matlab.add(name)

    with h5py.File(path, "r") as file:
        file.visititems(note)
    return Hdf5Source(path, with_last_axes(shapes, matlab), others, frozenset(matlab))


def _text(attribute: Any) -> str:
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)
