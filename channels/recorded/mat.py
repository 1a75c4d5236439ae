"""MATLAB files of versions 4 and 5, whose arrays are read as a whole in a separate process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from channels.isolated.mat import mat_array, mat_variables
from channels.recorded.matlab_axes import with_last_axes
from channels.recorded.source import MAX_WHOLE, RecordingError, Source, shown


@dataclass(frozen=True, eq=False)
class MatSource(Source):
    """A .mat file of version 4 to 7; an array has at most 2 GB there."""

    _whole: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)

    def read(self, name: str, cut: tuple[slice, ...]) -> NDArray[Any]:
        """Return a part of an array, which is read once."""
        if name not in self._whole:
            self._whole[name] = mat_array(self.path, name)
        # With the axes that MATLAB has dropped.
        return self._whole[name].reshape(self.shapes[name])[cut]

    def check_room(self, name: str, cut: tuple[slice, ...]) -> None:
        """Refuse sizes that are not believable, and arrays that do not fit in memory."""
        whole = tuple(slice(0, length) for length in self.shapes[name])
        super().check_room(name, whole)
        if self.bytes_to_read(name, whole) > MAX_WHOLE:
            raise RecordingError(
                f"{shown(name)!r} has {self.bytes_to_read(name, whole) / 1e9:.3g} GB, which is read as a whole; save "
                "it with -v7.3"
            )


def open_mat(path: Path) -> MatSource:
    """Open a .mat file of version 4 to 7."""
    shapes: dict[str, tuple[int, ...]] = {}
    others: dict[str, str] = {}
    for name, shape, kind in mat_variables(path):
        if kind in ("double", "single") or kind.startswith(("int", "uint")):
            shapes[name] = shape
        else:
            others[name] = f"{kind}, not numbers"
    return MatSource(path, with_last_axes(shapes, shapes), others)
