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

import h5py
import numpy as np
import xarray
from h5py.h5r import get_name
from xarray.backends import BackendArray, BackendEntrypoint, CachingFileManager
from xarray.core import indexing

from airfl.errors import UserError
from airfl.trace.integrity import open_checked

OF_DIMENSIONS = frozenset(("CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_Netcdf4Coordinates", "_Netcdf4Dimid"))
"""Attributes by which HDF5 and netCDF-4 tie dimensions to variables; nobody's to read."""
DECODED = frozenset(
    ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "calendar", "coordinates")
)
"""Attributes by which xarray decodes values, and those of other writers. A trace has none of them."""


class UnusualError(Exception):
    """The file is not as `TraceWriter` leaves it: xarray's own engine has to read it."""


class TraceBackend(BackendEntrypoint):
    """Opens what `TraceWriter` wrote: `xarray.open_dataset(file, engine=TraceBackend)`."""

    description = "Open traces of airfl"

    def open_dataset(
        self, filename_or_obj: Any, *, drop_variables: str | Iterable[str] | None = None
    ) -> xarray.Dataset:
        """The lazy dataset, which keeps the file open until it is closed. UnusualError: it is for another engine."""
        path = str(Path(filename_or_obj).absolute())
        manager = CachingFileManager(open_checked, path)
        try:
            dataset = _dataset(manager, path)
        except BaseException:
            manager.close()
            raise
        dataset = dataset.drop_vars([drop_variables] if isinstance(drop_variables, str) else drop_variables or [])
        dataset.set_close(manager.close)  # of what is returned: a dataset that is made from another closes nothing
        return dataset


class _LazyArray(BackendArray):
    """A variable that is read from the file when its values are asked for."""

    def __init__(self, manager: Any, path: str, name: str, dataset: h5py.Dataset) -> None:
        self._manager, self._path, self._name = manager, path, name
        self.shape, self.dtype = dataset.shape, dataset.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        kinds = indexing.IndexingSupport.OUTER_1VECTOR
        return indexing.explicit_indexing_adapter(key, self.shape, kinds, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        """Values; UserError where they are damaged, or more than this machine has room for."""
        check_room(self._path, self._name, self.dtype.itemsize * math.prod(map(_count, key, self.shape)))
        try:
            return self._manager.acquire()[self._name][key]
        except (OSError, RuntimeError, KeyError) as error:  # what HDF5 says of a damaged chunk, or of a lost one
            raise UserError(damaged(self._path, f"{self._name}: {one_line(error)}")) from None


def damaged(path: str | Path, what: str) -> str:
    """The line for a trace that does not say what was written."""
    return f"{path}: damaged: {what}; take a copy that is whole, or run it again"


def one_line(error: BaseException) -> str:
    """What a library says of a file, in a few words."""
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]


def check_room(path: str | Path, name: str, needed: int) -> None:
    """UserError before more is read of a variable than this machine's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise UserError(
            f"{path}: {needed / 1e9:.3g} GB of {name} are asked for, this machine has {memory / 1e9:.3g} GB; ask for "
            "fewer rounds at a time"
        )


def _count(key: Any, size: int) -> int:
    """Of indices along an axis."""
    return len(range(*key.indices(size))) if isinstance(key, slice) else int(np.size(key))


def _dataset(manager: Any, path: str) -> xarray.Dataset:
    file = manager.acquire()
    items = dict(file.items())
    if not all(isinstance(item, h5py.Dataset) for item in items.values()):
        raise UnusualError
    scales = {name: item for name, item in items.items() if item.attrs.get("CLASS") == b"DIMENSION_SCALE"}
    sizes = {name: item.shape[0] for name, item in scales.items()}
    variables = {
        name: _variable(manager, path, name, item, sizes) for name, item in items.items() if name not in scales
    }
    attributes = _attributes(file)
    if not DECODED.isdisjoint(attributes):
        raise UnusualError
    dataset = xarray.Dataset(variables, attrs=attributes)
    unlimited = {name for name, item in scales.items() if item.maxshape == (None,)}
    dataset.encoding = {"unlimited_dims": unlimited, "source": path}
    return dataset


def _variable(manager: Any, path: str, name: str, item: h5py.Dataset, sizes: dict[str, int]) -> xarray.Variable:
    """Values, attributes and encoding as the h5netcdf engine gives them."""
    attributes = _attributes(item)
    dimensions = tuple(_name_of(references, item.file) for references in item.attrs.get("DIMENSION_LIST", ()))
    if item.shape != tuple(sizes.get(one) for one in dimensions) or item.dtype.kind not in "iufc":
        raise UnusualError  # a kill in the middle of a flush may leave variables of different lengths
    if not DECODED.isdisjoint(attributes):
        raise UnusualError
    encoding = {
        "dtype": item.dtype,
        "contiguous": item.chunks is None,
        "chunksizes": item.chunks,
        "zlib": item.compression == "gzip",
        "source": path,
        "original_shape": item.shape,
    }
    if item.chunks is not None:
        encoding["preferred_chunks"] = dict(zip(dimensions, item.chunks, strict=True))
    if item.compression == "gzip":
        encoding["complevel"] = item.compression_opts
    data = indexing.LazilyIndexedArray(_LazyArray(manager, path, name, item))
    return xarray.Variable(dimensions, data, attributes, encoding)


def _name_of(references: np.ndarray, file: h5py.File) -> str:
    """Of the one dimension an axis is tied to."""
    if len(references) != 1:
        raise UnusualError
    name: bytes = get_name(references[0], file.id)
    return name.decode().removeprefix("/")


def _attributes(item: h5py.Group | h5py.Dataset) -> dict[str, Any]:
    attributes = {name: value for name, value in item.attrs.items() if name not in OF_DIMENSIONS}
    if not all(isinstance(value, str | np.generic) for value in attributes.values()):
        raise UnusualError
    return attributes
