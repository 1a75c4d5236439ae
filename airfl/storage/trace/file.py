"""Reads the HDF5 file of a trace: its contents and parts of its values. The file is not trusted.

Where variables are stored, how they are compressed and how they are chunked is checked before any value is read.
`airfl.storage.trace.isolated` does this in a separate process for files that this process did not write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5o, h5s, h5z
from h5py.h5r import dereference

from airfl.errors import UserError
from airfl.storage.trace.schema import SCHEMA

OF_NETCDF = frozenset(
    ("CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid")
)
"""Attributes that HDF5 and netCDF-4 use to attach dimensions to variables, or for provenance. They are hidden."""
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
LAYOUTS = (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED)
FILTERS = (h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)
"""Filters that are allowed. The code of any other filter is little tested."""
MOST_FILTERS = 4
MOST_CHUNK_BYTES = 1 << 24
"""A chunk is held in memory whole. Chunks of a trace have at most half a megabyte; other tools write larger ones."""
MOST_ITEMS, MOST_ATTRIBUTES = 1000, 200
MOST_TEXT = 1 << 20
"""Characters of an attribute; the settings take a few thousand."""
KINDS = "iufc"

Key = tuple[Any, ...]
"""Selects a part of a variable: per axis an index or a slice with a positive step; one axis may have an ascending
array."""


@dataclass(frozen=True)
class Odd:
    """Stands for the value of an attribute that is neither a text nor a number.

    Attributes:
        what: A description of the value.
    """

    what: str

    def __repr__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Described:
    """The description of a variable in a file.

    Attributes:
        name: Its name.
        dimensions: Names of its dimensions.
        shape: Its shape.
        dtype: numpy's type, "O" for texts.
        chunks: Shape of a chunk; None if the variable is not chunked.
        packed: Level of gzip; None if it is not compressed.
        attributes: Texts, numbers, or `Odd`, by name.
    """

    name: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None
    packed: int | None
    attributes: Mapping[str, Any]

    @property
    def nbytes(self) -> int:
        """Size of all values in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Contents:
    """The contents of a file.

    Attributes:
        attributes: Attributes of the file, by name.
        sizes: Sizes of the dimensions, by name.
        unlimited: Names of the unlimited dimensions.
        variables: Variables that have dimensions attached.
    """

    attributes: Mapping[str, Any]
    sizes: Mapping[str, int]
    unlimited: Sequence[str]
    variables: Sequence[Described]


class TraceFile:
    """An open trace file. Raises UserError if the file is not a trace, or is built in a way that is not read."""

    def __init__(self, path: Path, raw: h5py.File) -> None:
        """Take ownership of the HDF5 file, and close it if this raises."""
        self._path, self._raw = path, raw
        try:
            self._check_schema()
            self._items = dict(self._own_items())
            self.contents = self._look()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def read(self, name: str, key: Key) -> Any:
        """Return a part of a variable as an array or number, with the fill value in rounds that it lacks."""
        item, shape = self._items[name], self._shapes[name]
        if h5py.check_string_dtype(item.dtype) is not None:
            item = item.asstr(errors="replace")
        if self._items[name].shape == shape:
            return item[key]
        rounds, have = np.arange(shape[0])[key[0]], self._items[name].shape[0]
        values = np.empty(shape[:1] + self._items[name].shape[1:], self._items[name].dtype)
        values[:] = self._items[name].fillvalue
        values[:have] = item[...]
        return values[(rounds, *key[1:])]

    def _check_schema(self) -> None:
        found = self._attributes(self._raw).get("schema")
        if isinstance(found, str) and found == SCHEMA:
            return
        family = SCHEMA.partition("/")[0]
        if isinstance(found, str) and found.startswith(f"{family}/"):
            writer = self._attributes(self._raw).get("airfl_version", "a later one")
            raise UserError(
                f"{self._path}: schema must be {SCHEMA}, got {found[:60]}; open it with the version of airfl that "
                f"wrote it ({str(writer)[:60]})"
            )
        what = "without the attribute schema" if found is None else f"of schema {str(found)[:60]!r}"
        raise UserError(f"{self._path}: not a trace of schema {SCHEMA}, but an HDF5 file {what}")

    def _own_items(self) -> Iterator[tuple[str, h5py.Dataset]]:
        """Return the datasets; UserError for links, external storage, and filters or chunks that are not read."""
        if len(self._raw) > MOST_ITEMS:
            raise UserError(f"{self._path}: damaged: at most {MOST_ITEMS:,} variables are read, got {len(self._raw):,}")
        for name in self._raw:
            link = self._raw.get(name, getlink=True)
            item = self._raw.get(name) if isinstance(link, h5py.HardLink) else None
            layout = item.id.get_create_plist() if isinstance(item, h5py.Dataset) else None
            outside = layout is not None and (layout.get_layout() not in LAYOUTS or layout.get_external_count() > 0)
            if item is None or outside:
                raise UserError(
                    f"{self._path}: {name[:60]!r} is a link or is stored in another file, which is not followed; copy "
                    "it into the trace"
                )
            if layout is not None and item.shape is not None and self._is_readable(name, item, layout):
                yield name, item

    def _is_readable(self, name: str, item: h5py.Dataset, layout: Any) -> bool:
        """Whether a dataset holds numbers or texts; UserError if its chunks are too large or its filters not read."""
        try:
            dtype = item.dtype
        except TypeError:  # a type that numpy does not have
            return False
        count = layout.get_nfilters()
        filters = [layout.get_filter(number)[0] for number in range(min(count, MOST_FILTERS))]
        if count > MOST_FILTERS or not set(filters) <= set(FILTERS):
            raise UserError(
                f"{self._path}: {name[:60]!r} uses the HDF5 filters {filters}; only deflate, shuffle and fletcher32 "
                "are read; repack it: h5repack -f GZIP=1"
            )
        if item.chunks is not None and math.prod(item.chunks) * dtype.itemsize > MOST_CHUNK_BYTES:
            raise UserError(
                f"{self._path}: {name[:60]!r} has chunks of shape {item.chunks}, more than {MOST_CHUNK_BYTES:,} bytes; "
                "repack it: h5repack"
            )
        return dtype.kind in KINDS or h5py.check_string_dtype(dtype) is not None

    def _look(self) -> Contents:
        attributes = {name: _attribute_names(item) for name, item in self._items.items()}
        scales = {
            name: item
            for name, item in self._items.items()
            if b"CLASS" in attributes[name] and _read(item, b"CLASS") == b"DIMENSION_SCALE"
        }
        sizes = {name: item.shape[0] for name, item in scales.items() if len(item.shape) == 1}
        unlimited = [name for name in sizes if scales[name].maxshape == (None,)]
        places = {h5o.get_info(scales[name].id).addr: name for name in sizes}
        dimensions = {}
        for name, item in self._items.items():
            if name not in sizes:
                dimensions[name] = _dimensions_of(item, places) if b"DIMENSION_LIST" in attributes[name] else ()
            elif b"NAME" not in attributes[name] or not bytes(_read(item, b"NAME")).startswith(NO_VARIABLE):
                dimensions[name] = (name,)  # a coordinate
        for name, attached in dimensions.items():  # a process killed while flushing leaves variables of unequal length
            for axis, one in enumerate(attached):
                if one in unlimited:
                    sizes[one] = max(sizes[one], self._items[name].shape[axis])
        variables = []
        self._shapes: dict[str, tuple[int, ...]] = {}
        for name, attached in dimensions.items():
            item, shape = self._items[name], tuple(sizes[one] for one in attached)
            if item.shape[1:] != shape[1:] or item.shape[:1] > shape[:1] or (item.shape != shape and not shape):
                continue
            if item.shape != shape and attached[0] not in unlimited:
                continue
            self._shapes[name] = shape
            level = item.compression_opts if item.compression == "gzip" else None
            dtype = item.dtype if item.dtype.kind in KINDS else np.dtype(object)
            variables.append(Described(name, attached, shape, dtype, item.chunks, level, self._attributes(item, name)))
        return Contents(self._attributes(self._raw), sizes, unlimited, variables)

    def _attributes(self, item: h5py.Group | h5py.Dataset, of: str = "") -> dict[str, Any]:
        count = h5a.get_num_attrs(item.id)
        if count > MOST_ATTRIBUTES:
            raise UserError(
                f"{self._path}: damaged: {of or 'the file'} must have at most {MOST_ATTRIBUTES} attributes, got "
                f"{count:,}; run it again"
            )
        names = ((name.decode(errors="surrogateescape"), name) for name in _attribute_names(item))
        return {name: _value(item, raw) for name, raw in names if name not in OF_NETCDF}


def _attribute_names(item: h5py.Group | h5py.Dataset) -> list[bytes]:
    names: list[bytes] = []
    h5a.iterate(item.id, names.append)  # continues as long as the callback returns None
    return names


def _read(item: h5py.Group | h5py.Dataset, name: bytes) -> Any:
    """Return the value of an attribute, three times as fast as h5py's `attrs`, with texts as bytes."""
    return _stored(h5a.open(item.id, name))


def _stored(attribute: h5a.AttrID) -> Any:
    values = np.empty(attribute.shape, attribute.dtype)
    attribute.read(values)
    return values[()]


def _dimensions_of(item: h5py.Dataset, places: Mapping[int, str]) -> tuple[str, ...]:
    """Return the names of a variable's dimensions, or () unless every axis has exactly one.

    places: names of dimensions by their address in the file.
    """
    attached = _read(item, b"DIMENSION_LIST")
    if len(attached) != len(item.shape) or any(len(references) != 1 for references in attached):
        return ()
    found = [places.get(h5o.get_info(dereference(references[0], item.id)).addr) for references in attached]
    names = tuple(name for name in found if name is not None)
    return names if len(names) == len(attached) else ()


def _value(item: h5py.Group | h5py.Dataset, name: bytes) -> Any:
    """Return an attribute that is a text or number, or an array of one of them; `Odd` for anything else."""
    attribute = h5a.open(item.id, name)
    shape, kind = attribute.shape, attribute.get_type()
    if math.prod(shape) != 1 or len(shape) > 1:
        return Odd("an array" if shape else "nothing")
    if kind.get_size() > MOST_TEXT:
        return Odd("too long")
    if attribute.get_space().get_simple_extent_type() == h5s.NULL:
        return Odd("nothing")
    value = _stored(attribute)
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        try:
            value = bytes(value).decode()
        except UnicodeDecodeError:
            return Odd(repr(value)[:60])
    if isinstance(value, str):
        return str(value) if len(value) <= MOST_TEXT else Odd("too long")
    if isinstance(value, np.generic) and value.dtype.kind in "iufb":
        return value
    return Odd(f"of type {type(value).__name__}")
