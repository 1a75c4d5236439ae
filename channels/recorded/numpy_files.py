"""NumPy's .npy and .npz files: headers are read in a separate process, and plain data a part at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.isolated.arrays import Place, array, places, verify
from channels.recorded.source import MAX_WHOLE, RecordingError, Source, is_number, shown, size_of


@dataclass(frozen=True, eq=False)
class NumpySource(Source):
    """A .npy file, whose array has no name, or a .npz file.

    Attributes:
        stored: Where each array lies and how it is stored, by name.
    """

    stored: Mapping[str, Place] = field(default_factory=dict)
    _whole: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)

    def read(self, name: str, cut: tuple[slice, ...]) -> NDArray[Any]:
        """Return a part of an array: of plain data in C order only that, else the array is unpacked once."""
        place, shape = self.stored[name], self.shapes[name]
        if place.dtype is None or place.offset is None or place.fortran:
            if name not in self._whole:
                self._whole[name] = array(self.path, name, tuple(slice(length) for length in shape))
            return self._whole[name][cut]
        return _part(self.path, place.offset, place.dtype, shape, cut)

    def check_room(self, name: str, cut: tuple[slice, ...]) -> None:
        """Refuse sizes that are not believable, and arrays without parts that do not fit in memory."""
        place, shape = self.stored[name], self.shapes[name]
        parts = place.offset is not None and not place.fortran
        whole = tuple(slice(0, length) for length in shape)
        super().check_room(name, cut if parts else whole)
        if not parts and self.bytes_to_read(name, whole) > MAX_WHOLE:
            how = "in Fortran order" if place.fortran else "compressed"
            raise RecordingError(
                f"{shown(name)!r} has {self.bytes_to_read(name, whole) / 1e9:.3g} GB {how}, which is read as a whole; "
                "save it uncompressed in C order (numpy.save, numpy.savez), or as HDF5"
            )
        if parts and name:
            verify(self.path, name)


def open_numpy(path: Path) -> NumpySource:
    """Open a .npy or .npz file; nothing in it is unpickled."""
    stored = {place.name: place for place in places(path)}
    shapes = {name: place.shape for name, place in stored.items() if place.dtype is not None and is_number(place.dtype)}
    others = {
        name: f"{shown(str(place.dtype or 'objects'))}, not numbers"
        for name, place in stored.items()
        if name not in shapes
    }
    return NumpySource(path, shapes, others, stored)


def _part(
    path: Path, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], cut: tuple[slice, ...]
) -> NDArray[Any]:
    """Read a part of an array in C order: one read for each run of values that lie side by side."""
    starts = [int(one.start or 0) for one in cut]
    lengths = [int(one.stop) - start for one, start in zip(cut, starts, strict=True)]
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    # The last axis that is not read from end to end: everything behind it is contiguous.
    inner = len(shape)
    while inner and lengths[inner - 1] == shape[inner - 1]:
        inner -= 1
    inner = max(inner - 1, 0)
    run = math.prod(lengths[inner:])
    values = np.empty(size_of(cut), dtype)
    raw, size = values.view(np.uint8), run * dtype.itemsize
    with open(path, "rb") as file:
        for number, outer in enumerate(np.ndindex(*lengths[:inner])):
            first = sum((start + step) * stride for start, step, stride in zip(starts, outer, strides, strict=False))
            first += starts[inner] * strides[inner] if shape else 0
            _fill(file.fileno(), raw[number * size : (number + 1) * size], offset + first * dtype.itemsize)
    return values.reshape(lengths)


def _fill(file: int, target: NDArray[np.uint8], at: int) -> None:
    """Fill an array with the bytes of a file from a place on; a single call may return fewer than are wanted."""
    done = 0
    while done < len(target):
        read = os.preadv(file, [target[done:].data], at + done)
        if not read:
            raise RecordingError("its data ends early; export it again")
        done += read
