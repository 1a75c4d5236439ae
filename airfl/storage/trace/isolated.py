"""Opens trace files: those that this process has written in this process, all others in a separate one.

HDF5 can crash on a crafted file. A seal shows that a file is unchanged since it was sealed, but not who sealed it. So
HDF5 reads in this process only files that this process itself has sealed and that are unchanged.

`airfl.storage.trace.server` is the code of the separate process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from airfl.errors import UserError
from airfl.storage.trace.file import Contents, Described, Key, Odd, TraceFile
from airfl.storage.trace.integrity import BEING_WRITTEN, DamagedTraceError, open_own
from channels.isolated.child import IsolatedError
from channels.isolated.server import Server

BLOCK_BYTES = 1 << 25
"""Size of the blocks in which values are transferred."""
MOST_ENDS, MOST_FAULTS = 2, 16
"""How many variables of a file may crash the process, or be unreadable, before no further ones are tried."""
TEXT_BYTES = 1000
"""Assumed upper bound on the mean size of a text value."""


class OpenTrace(Protocol):
    """An open file, read in this or in the separate process."""

    contents: Contents

    def read(self, name: str, key: Key) -> Any:
        """Return a part of a variable."""

    def close(self) -> None:
        """Close the file."""


def open_file(path: str) -> OpenTrace:
    """Open the file of a trace.

    Raises:
        UserError: If it is not a trace.
        DamagedTraceError: If it does not match its seal.
        IsolatedError: If reading it crashes the separate process, or HDF5 reports an error there.
    """
    own = open_own(path)
    return TraceFile(Path(path), own) if own is not None else IsolatedFile(path)


class IsolatedFile:
    """A file that is open in the separate process. It is reopened if that process had to be restarted."""

    def __init__(self, path: str) -> None:
        self._file: dict[str, Any] = {"path": path, "identity": identity(path)}
        self.contents = _contents(self._ask({"do": "open"})[0])

    def read(self, name: str, key: Key) -> Any:
        """Read a part of a variable, block by block."""
        described = next(one for one in self.contents.variables if one.name == name)
        places = tuple(_places(one, size) for one, size in zip(key, described.shape, strict=True))
        values = np.empty([len(one) for one in places if not isinstance(one, int)], described.dtype)
        self._fill(values, name, places)
        return values

    def close(self) -> None:
        """Close the file in the separate process."""
        _server.tell({**self._file, "do": "close"})

    def _fill(self, values: np.ndarray, name: str, places: tuple[Places, ...]) -> None:
        if not values.size:
            return
        needed = values.size * (TEXT_BYTES if values.dtype == object else values.itemsize)
        if needed > BLOCK_BYTES and values.size > 1:
            axis = next(axis for axis, size in enumerate(values.shape) if size > 1)
            at, several = [(at, one) for at, one in enumerate(places) if not isinstance(one, int)][axis]
            half, before = values.shape[axis] // 2, (slice(None),) * axis
            for part in (slice(None, half), slice(half, None)):
                self._fill(values[(*before, part)], name, (*places[:at], several[part], *places[at + 1 :]))
            return
        request = {"do": "read", "name": name, "key": [_plain(one) for one in places]}
        answer, data = self._ask(request, max(values.nbytes, 1))
        if values.dtype == object:
            values[...] = np.array(answer["texts"], dtype=object).reshape(values.shape)
        elif len(data) == values.nbytes:
            values[...] = np.frombuffer(data, values.dtype).reshape(values.shape)
        else:
            raise IsolatedError("the process that reads it crashed")

    def _ask(self, request: Mapping[str, Any], most: int = 0) -> tuple[dict[str, Any], bytearray]:
        failures = _failures.setdefault((self._file["path"], *self._file["identity"]), _Failures())
        failures.check(request.get("name"))
        try:
            answer, data = _server.ask({**self._file, **request}, most)
        except IsolatedError as error:
            failures.ends[request.get("name")] = str(error)
            raise
        if "refused" in answer:
            raise UserError(answer["refused"])
        if "damaged" in answer:
            raise DamagedTraceError(answer["damaged"])
        if "fault" in answer:
            if answer["fault"] != BEING_WRITTEN:
                failures.faults[request.get("name")] = answer["fault"]
            raise IsolatedError(answer["fault"])
        return answer, data


_server = Server("airfl.storage.trace.server")


@dataclass
class _Failures:
    """Messages of failed reads by variable of a file, so that they are not tried again."""

    ends: dict[str | None, str] = field(default_factory=dict)
    """Variables that crashed the process."""
    faults: dict[str | None, str] = field(default_factory=dict)
    """Variables that HDF5 could not read. The process is restarted after these, too."""

    def check(self, name: str | None) -> None:
        """Raise IsolatedError for a variable that failed before, and for all after too many failures."""
        found = {**self.faults, **self.ends}
        if name in found:
            raise IsolatedError(found[name])
        if len(self.ends) >= MOST_ENDS or len(self.faults) >= MOST_FAULTS:
            raise IsolatedError(f"not tried, because {len(found)} other variables cannot be read")


_failures: dict[tuple[Any, ...], _Failures] = {}
"""By path and identity of the file."""


def identity(path: str) -> list[int]:
    """Return numbers that change if a file is replaced or written to: device, inode, size, time of modification."""
    status = os.stat(path)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


Places = int | range | list[int]
"""Indices along an axis."""


def _places(key: Any, size: int) -> Places:
    if isinstance(key, slice):
        return range(*key.indices(size))
    return int(key) if np.ndim(key) == 0 else [int(one) for one in key]


def _plain(places: Places) -> Any:
    return {"slice": [places.start, places.stop, places.step]} if isinstance(places, range) else places


def _plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        if isinstance(value, str)
        else {"odd": value.what}
        if isinstance(value, Odd)
        else {"dtype": value.dtype.str, "bytes": value.tobytes().hex()}
        for name, value in attributes.items()
    }


def _attributes(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else _number(value) for name, value in plain.items()}


def _number(plain: Mapping[str, Any]) -> Any:
    if "odd" in plain:
        return Odd(str(plain["odd"]))
    return np.frombuffer(bytes.fromhex(plain["bytes"]), plain["dtype"])[0]


def plain_contents(contents: Contents) -> dict[str, Any]:
    """Return the contents in a form that JSON can represent."""
    return {
        "attributes": _plain_attributes(contents.attributes),
        "sizes": dict(contents.sizes),
        "unlimited": list(contents.unlimited),
        "variables": [
            {
                **vars(one),
                "dtype": "O" if one.dtype == object else one.dtype.str,
                "attributes": _plain_attributes(one.attributes),
            }
            for one in contents.variables
        ],
    }


def _contents(plain: Mapping[str, Any]) -> Contents:
    variables = [
        Described(
            name=one["name"],
            dimensions=tuple(one["dimensions"]),
            shape=tuple(one["shape"]),
            dtype=np.dtype(one["dtype"]),
            chunks=None if one["chunks"] is None else tuple(one["chunks"]),
            packed=one["packed"],
            attributes=_attributes(one["attributes"]),
        )
        for one in plain["variables"]
    ]
    return Contents(_attributes(plain["attributes"]), plain["sizes"], plain["unlimited"], variables)
