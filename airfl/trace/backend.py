"""How xarray opens a trace: what its h5netcdf engine gives, in a thirtieth of the time.

That engine asks every variable of the file for its length whenever it wants the size of an unlimited dimension, which
is most of the time a trace takes to open. Here every variable is looked at once.
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
from airfl.trace.contents import ROOM_BYTES, check_contents
from airfl.trace.file import Contents, Described
from airfl.trace.isolated import open_file
from channels.isolated.child import IsolatedError

DECODED = frozenset(
    ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "calendar", "coordinates")
)
"""Attributes by which xarray decodes values. A trace has none of them before other tools have written it again."""


DEFLATED = 1032
"""Bytes that one byte can stand for where gzip has packed as well as it can."""


class TraceBackend(BackendEntrypoint):
    """Opens traces: `xarray.open_dataset(file, engine=TraceBackend)`."""

    description = "Open traces of airfl"

    def open_dataset(
        self, filename_or_obj: Any, *, drop_variables: str | Iterable[str] | None = None, shown: str | None = None
    ) -> xarray.Dataset:
        """The lazy dataset, which keeps the file open until it is closed. UserError for what is no trace.

        shown: the path as the user gave it, for errors; xarray makes it absolute.
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
        dataset.set_close(manager.close)  # of what is returned: a dataset that is made from another closes nothing
        return dataset


class _LazyArray(BackendArray):
    """A variable that is read from the file when its values are asked for."""

    def __init__(self, manager: Any, shown: str, size: int, described: Described) -> None:
        self._manager, self._shown, self._size, self._name = manager, shown, size, described.name
        self.shape, self.dtype = described.shape, described.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        kinds = indexing.IndexingSupport.OUTER_1VECTOR
        return indexing.explicit_indexing_adapter(key, self.shape, kinds, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        """Values; UserError where they are damaged, or more than the file or this machine has room for."""
        check_room(self._shown, self._name, self.dtype.itemsize * math.prod(map(_count, key, self.shape)), self._size)
        try:
            return self._manager.acquire().read(self._name, key)
        except (OSError, RuntimeError, KeyError, IsolatedError) as error:  # what is said of a damaged or lost chunk
            raise UserError(damaged(self._shown, f"{self._name}: {one_line(error)}")) from None


def damaged(path: str | Path, what: str) -> str:
    """The line for a trace that does not say what was written."""
    return f"{path}: damaged: {what}; take a copy that is whole, or run it again"


def one_line(error: BaseException) -> str:
    """What a library says of a file, in a few words."""
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]


def check_room(path: str | Path, name: str, needed: int, size: int) -> None:
    """UserError before more is read of a variable than this machine's memory, or than a file of that size can hold: a
    few bytes may say that they stand for gigabytes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    held = DEFLATED * size + ROOM_BYTES
    if needed > min(memory, held):
        what = f"this machine has {memory / 1e9:.3g} GB" if memory < held else f"its file can hold {held / 1e9:.3g} GB"
        raise UserError(
            f"{path}: {needed / 1e9:.3g} GB of {name} are asked for, {what}; ask for fewer rounds at a time"
        )


def _count(key: Any, size: int) -> int:
    """Of indices along an axis."""
    return len(range(*key.indices(size))) if isinstance(key, slice) else int(np.size(key))


def _dataset(manager: Any, path: str, shown: str) -> xarray.Dataset:
    contents: Contents = manager.acquire().contents
    size = os.stat(path).st_size
    variables = {one.name: _variable(manager, path, shown, size, one) for one in contents.variables}
    dataset = xarray.Dataset(variables, attrs=dict(contents.attributes))
    said = [contents.attributes, *(one.attributes for one in contents.variables)]
    if not all(DECODED.isdisjoint(attributes) for attributes in said):
        dataset = xarray.decode_cf(dataset)
    dataset.encoding = {"unlimited_dims": set(contents.unlimited), "source": path}
    return dataset


def _variable(manager: Any, path: str, shown: str, size: int, described: Described) -> xarray.Variable:
    """Values, attributes and encoding as the h5netcdf engine gives them."""
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
