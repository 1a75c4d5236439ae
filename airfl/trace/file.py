"""The file of a trace, as HDF5 reads it: what is in it, parts of its values. Nothing of it is believed.

Whatever the file says of itself is looked at before a value is read: where variables lie, how they are packed, in what
chunks. `airfl.trace.isolated` does this in a process of its own for files from outside.
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
from airfl.trace.schema import SCHEMA

OF_NETCDF = frozenset(
    ("CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid")
)
"""Attributes by which HDF5 and netCDF-4 tie dimensions to variables, or sign; nobody's to read."""
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
LAYOUTS = (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED)
FILTERS = (h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)
"""By which values may be packed; any other is code that hardly anybody has looked at."""
MOST_FILTERS = 4
MOST_CHUNK_BYTES = 1 << 24
"""A chunk is in memory whole. A trace's have half a megabyte at most; other tools' are larger."""
MOST_ITEMS, MOST_ATTRIBUTES = 1000, 200
MOST_TEXT = 1 << 20
"""Characters of an attribute: the settings take some thousand."""
KINDS = "iufc"

Key = tuple[Any, ...]
"""Of a part: for every axis an index, a slice with a positive step, or at most once an ascending array."""


@dataclass(frozen=True)
class Odd:
    """An attribute's value that is neither a text nor a number.

    Attributes:
        what: What it is instead.
    """

    what: str

    def __repr__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Described:
    """A variable of a file.

    Attributes:
        name: Its name.
        dimensions: Names of its dimensions.
        shape: Its shape.
        dtype: numpy's type, "O" for texts.
        chunks: Shape of a chunk, None where values are not in chunks.
        packed: Level of gzip, None without.
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
        """Of all values."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Contents:
    """What is in a file.

    Attributes:
        attributes: Attributes of the file, by name.
        sizes: Sizes of the dimensions, by name.
        unlimited: Names of the dimensions that grow.
        variables: Variables that are tied to dimensions.
    """

    attributes: Mapping[str, Any]
    sizes: Mapping[str, int]
    unlimited: Sequence[str]
    variables: Sequence[Described]


class TraceFile:
    """An open file. UserError where it is no trace, or is made as none should be."""

    def __init__(self, path: Path, raw: h5py.File) -> None:
        """Takes the HDF5 file over, also where this raises."""
        self._path, self._raw = path, raw
        try:
            self._check_schema()
            self._items = dict(self._own_items())
            self.contents = self._look()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of it."""
        self._raw.close()

    def read(self, name: str, key: Key) -> Any:
        """A part of a variable, as an array or one number; its fill value in rounds that it has less than others."""
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
                f"{self._path}: a trace of schema {found[:60]}, and this airfl reads {SCHEMA}; open it with the airfl "
                f"that wrote it ({str(writer)[:60]})"
            )
        what = "without the attribute schema" if found is None else f"of schema {str(found)[:60]!r}"
        raise UserError(f"{self._path}: not a trace of schema {SCHEMA}, but an HDF5 file {what}")

    def _own_items(self) -> Iterator[tuple[str, h5py.Dataset]]:
        """UserError for a file that sends its reader to other files, in circles, or through code that few have seen."""
        if len(self._raw) > MOST_ITEMS:
            raise UserError(f"{self._path}: damaged: {len(self._raw):,} variables, at most {MOST_ITEMS:,} are read")
        for name in self._raw:
            link = self._raw.get(name, getlink=True)
            item = self._raw.get(name) if isinstance(link, h5py.HardLink) else None
            layout = item.id.get_create_plist() if isinstance(item, h5py.Dataset) else None
            outside = layout is not None and (layout.get_layout() not in LAYOUTS or layout.get_external_count() > 0)
            if item is None or outside:
                raise UserError(
                    f"{self._path}: {name[:60]!r} lies in another place or file, which is not followed; copy it into "
                    "the trace"
                )
            if layout is not None and item.shape is not None and self._is_readable(name, item, layout):
                yield name, item

    def _is_readable(self, name: str, item: h5py.Dataset, layout: Any) -> bool:
        """Whether it is numbers or texts; UserError for those in too large chunks, or packed otherwise."""
        try:
            dtype = item.dtype
        except TypeError:  # of what numpy has no numbers for
            return False
        count = layout.get_nfilters()
        filters = [layout.get_filter(number)[0] for number in range(min(count, MOST_FILTERS))]
        if count > MOST_FILTERS or not set(filters) <= set(FILTERS):
            raise UserError(
                f"{self._path}: {name[:60]!r} is packed by HDF5's filters {filters}, and only deflate, shuffle and "
                "fletcher32 are read; repack it: h5repack -f GZIP=1"
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
        for name, tied in dimensions.items():  # a kill in mid-flush leaves variables of different lengths
            for axis, one in enumerate(tied):
                if one in unlimited:
                    sizes[one] = max(sizes[one], self._items[name].shape[axis])
        variables = []
        self._shapes: dict[str, tuple[int, ...]] = {}
        for name, tied in dimensions.items():
            item, shape = self._items[name], tuple(sizes[one] for one in tied)
            if item.shape[1:] != shape[1:] or item.shape[:1] > shape[:1] or (item.shape != shape and not shape):
                continue
            if item.shape != shape and tied[0] not in unlimited:
                continue
            self._shapes[name] = shape
            packed = item.compression_opts if item.compression == "gzip" else None
            dtype = item.dtype if item.dtype.kind in KINDS else np.dtype(object)
            variables.append(Described(name, tied, shape, dtype, item.chunks, packed, self._attributes(item, name)))
        return Contents(self._attributes(self._raw), sizes, unlimited, variables)

    def _attributes(self, item: h5py.Group | h5py.Dataset, of: str = "") -> dict[str, Any]:
        count = h5a.get_num_attrs(item.id)
        if count > MOST_ATTRIBUTES:
            raise UserError(f"{self._path}: damaged: {count:,} attributes of {of or 'the file'}; run it again")
        names = ((name.decode(errors="surrogateescape"), name) for name in _attribute_names(item))
        return {name: _value(item, raw) for name, raw in names if name not in OF_NETCDF}


def _attribute_names(item: h5py.Group | h5py.Dataset) -> list[bytes]:
    names: list[bytes] = []
    h5a.iterate(item.id, names.append)  # goes on while nothing is returned
    return names


def _read(item: h5py.Group | h5py.Dataset, name: bytes) -> Any:
    """An attribute's value: what h5py's `attrs` gives in a third of the time, and texts as bytes."""
    return _stored(h5a.open(item.id, name))


def _stored(attribute: h5a.AttrID) -> Any:
    values = np.empty(attribute.shape, attribute.dtype)
    attribute.read(values)
    return values[()]


def _dimensions_of(item: h5py.Dataset, places: Mapping[int, str]) -> tuple[str, ...]:
    """Names of a variable's dimensions, by where these lie in the file; none unless it is tied to one on every axis."""
    tied = _read(item, b"DIMENSION_LIST")
    if len(tied) != len(item.shape) or any(len(references) != 1 for references in tied):
        return ()
    found = [places.get(h5o.get_info(dereference(references[0], item.id)).addr) for references in tied]
    names = tuple(name for name in found if name is not None)
    return names if len(names) == len(tied) else ()


def _value(item: h5py.Group | h5py.Dataset, name: bytes) -> Any:
    """A text or a number, also where it is the only one of an array."""
    found = h5a.open(item.id, name)
    shape, kind = found.shape, found.get_type()
    if math.prod(shape) != 1 or len(shape) > 1:
        return Odd("an array" if shape else "nothing")
    if kind.get_size() > MOST_TEXT:
        return Odd("too long")
    if found.get_space().get_simple_extent_type() == h5s.NULL:
        return Odd("nothing")
    value = _stored(found)
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
