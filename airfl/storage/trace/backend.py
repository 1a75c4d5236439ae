"""The xarray backend for traces. It gives what the h5netcdf engine gives, about thirty times faster.

The h5netcdf engine queries the length of every variable whenever it needs the size of an unlimited dimension, which
takes most of the time of opening a trace. This backend inspects every variable once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray, BackendEntrypoint, CachingFileManager
from xarray.core import indexing

from airfl.errors import UserError
from airfl.runtime.memory import machine_bytes
from airfl.storage.trace.contents import ROOM_BYTES, check_contents
from airfl.storage.trace.file import Contents, Described
from airfl.storage.trace.isolated import open_file
from channels.isolated.child import IsolatedError

DECODED = frozenset(
    ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "calendar", "coordinates")
)
"""Attributes that make xarray decode values. A trace has them only if another tool has rewritten it."""

DEFLATED = 1032
"""The highest compression ratio of gzip (deflate)."""


class TraceBackend(BackendEntrypoint):
    """Opens traces with `xarray.open_dataset(file, engine=TraceBackend)`."""

    description = "Open traces of airfl"

    def open_dataset(
        self, filename_or_obj: Any, *, drop_variables: str | Iterable[str] | None = None, shown: str | None = None
    ) -> xarray.Dataset:
        """Return the lazy dataset, which keeps the file open until it is closed.

        Args:
            filename_or_obj: Path of the trace.
            drop_variables: Names of variables to leave out.
            shown: The path as the user gave it, for error messages; xarray makes it absolute.

        Raises:
            UserError: If the file is not a trace.
        """
        path = str(Path(filename_or_obj).absolute())
        manager = CachingFileManager(open_file, path)
        try:
            check_contents(Path(filename_or_obj), manager.acquire().contents)
            dataset = _dataset(manager, path, shown or path)
        except BaseException:
            manager.close()
            raise
        dataset = dataset.drop_vars([drop_variables] if isinstance(drop_variables, str) else drop_variables or [])
        dataset.set_close(manager.close)  # set last: a dataset derived from another one does not inherit it
        return dataset


class _LazyArray(BackendArray):
    """A variable that is read from the file when its values are accessed."""

    def __init__(self, manager: Any, shown: str, size: int, described: Described) -> None:
        self._manager, self._shown, self._size, self._name = manager, shown, size, described.name
        self.shape, self.dtype = described.shape, described.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        kinds = indexing.IndexingSupport.OUTER_1VECTOR
        return indexing.explicit_indexing_adapter(key, self.shape, kinds, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        """Read values; UserError if they are damaged, or exceed what the file or the memory can hold."""
        check_room(self._shown, self._name, self.dtype.itemsize * math.prod(map(_count, key, self.shape)), self._size)
        try:
            return self._manager.acquire().read(self._name, key)
        except (OSError, RuntimeError, KeyError, IsolatedError) as error:  # raised for a damaged or missing chunk
            raise UserError(damaged(self._shown, f"{self._name}: {one_line(error)}")) from None


def damaged(path: str | Path, what: str) -> str:
    """Return the error message for a trace whose contents are not what was written."""
    return f"{path}: damaged: {what}; use an intact copy, or run it again"


def one_line(error: BaseException) -> str:
    """Return the first line of a library's error message, shortened."""
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]


def check_room(path: str | Path, name: str, needed: int, size: int) -> None:
    """Raise UserError if a read exceeds this machine's memory, or what a file of this size can hold.

    A damaged file of a few bytes may claim to hold gigabytes.
    """
    memory = machine_bytes()
    held = DEFLATED * size + ROOM_BYTES
    if needed > min(memory, held):
        what = f"this machine has {memory / 1e9:.3g} GB" if memory < held else f"the file can hold {held / 1e9:.3g} GB"
        raise UserError(f"{path}: cannot read {needed / 1e9:.3g} GB of {name}: {what}; read fewer rounds at a time")


def _count(key: Any, size: int) -> int:
    """Return the number of indices along an axis."""
    return len(range(*key.indices(size))) if isinstance(key, slice) else int(np.size(key))


def _dataset(manager: Any, path: str, shown: str) -> xarray.Dataset:
    contents: Contents = manager.acquire().contents
    size = os.stat(path).st_size
    variables = {one.name: _variable(manager, path, shown, size, one) for one in contents.variables}
    dataset = xarray.Dataset(variables, attrs=dict(contents.attributes))
    all_attributes = [contents.attributes, *(one.attributes for one in contents.variables)]
    if not all(DECODED.isdisjoint(attributes) for attributes in all_attributes):
        dataset = xarray.decode_cf(dataset)
    dataset.encoding = {"unlimited_dims": set(contents.unlimited), "source": path}
    return dataset


def _variable(manager: Any, path: str, shown: str, size: int, described: Described) -> xarray.Variable:
    """Return a variable with the values, attributes and encoding that the h5netcdf engine gives."""
    encoding = {
        "dtype": described.dtype,
        "contiguous": described.chunks is None,
        "chunksizes": described.chunks,
        "zlib": described.packed is not None,
        "source": path,
        "original_shape": described.shape,
    }
    if described.chunks is not None:
        encoding["preferred_chunks"] = dict(zip(described.dimensions, described.chunks, strict=True))
    if described.packed is not None:
        encoding["complevel"] = described.packed
    data = indexing.LazilyIndexedArray(_LazyArray(manager, shown, size, described))
    return xarray.Variable(described.dimensions, data, dict(described.attributes), encoding)
