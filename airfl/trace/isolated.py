"""Files of traces from outside, read in a process of their own; those that this process has written, in this one.

A seal says that a file is as it was when it was sealed, not by whom: anybody can compute one. So HDF5 gets to see
nothing in this process but what this process itself has sealed, and finds unchanged.

`airfl.trace.desk` is the other process's side.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from airfl.errors import UserError
from airfl.trace.file import Contents, Described, Key, Odd, TraceFile
from airfl.trace.integrity import BEING_WRITTEN, DamagedError, open_own
from channels.isolated.child import IsolatedError
from channels.isolated.server import Server

BLOCK_BYTES = 1 << 25
"""Of values that are handed over at a time."""
MOST_ENDS, MOST_FAULTS = 2, 16
"""Variables of a file that may end the process, and that may not be readable; after that no other is tried."""
TEXT_BYTES = 1000
"""Of one text among values, on average, at most."""


class OpenTrace(Protocol):
    """An open file, wherever it is read."""

    contents: Contents

    def read(self, name: str, key: Key) -> Any:
        """A part of a variable."""

    def close(self) -> None:
        """Let go of the file."""


def open_file(path: str) -> OpenTrace:
    """A trace's file. UserError where it is none; DamagedError where its seal says so; IsolatedError where reading it
    ends the process that does, and for whatever HDF5 says of it."""
    own = open_own(path)
    return TraceFile(Path(path), own) if own is not None else IsolatedFile(path)


class IsolatedFile:
    """A file that the other process has open. It is opened again there where that process had to be replaced."""

    def __init__(self, path: str) -> None:
        self._about: dict[str, Any] = {"path": path, "identity": identity(path)}
        self.contents = _contents(self._ask({"do": "open"})[0])

    def read(self, name: str, key: Key) -> Any:
        """A part of a variable, block by block."""
        described = next(one for one in self.contents.variables if one.name == name)
        places = tuple(_places(one, size) for one, size in zip(key, described.shape, strict=True))
        values = np.empty([len(one) for one in places if not isinstance(one, int)], described.dtype)
        self._fill(values, name, places)
        return values

    def close(self) -> None:
        """Let go of it there."""
        _server.tell({**self._about, "do": "close"})

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
            raise IsolatedError("reading it ends the process that does")

    def _ask(self, request: Mapping[str, Any], most: int = 0) -> tuple[dict[str, Any], bytearray]:
        met = _met.setdefault((self._about["path"], *self._about["identity"]), _Met())
        met.check(request.get("name"))
        try:
            answer, data = _server.ask({**self._about, **request}, most)
        except IsolatedError as error:
            met.ends[request.get("name")] = str(error)
            raise
        if "refused" in answer:
            raise UserError(answer["refused"])
        if "damaged" in answer:
            raise DamagedError(answer["damaged"])
        if "fault" in answer:
            if answer["fault"] != BEING_WRITTEN:
                met.faults[request.get("name")] = answer["fault"]
            raise IsolatedError(answer["fault"])
        return answer, data


_server = Server("airfl.trace.desk")


@dataclass
class _Met:
    """What came of reading a file's variables: seconds, and processes, that need not be spent again."""

    ends: dict[str | None, str] = field(default_factory=dict)
    """Of those that ended the process."""
    faults: dict[str | None, str] = field(default_factory=dict)
    """Of those that HDF5 could not read; the process is replaced after them, too."""

    def check(self, name: str | None) -> None:
        """IsolatedError for a variable that was met before, and for any where a file has cost enough."""
        found = {**self.faults, **self.ends}
        if name in found:
            raise IsolatedError(found[name])
        if len(self.ends) >= MOST_ENDS or len(self.faults) >= MOST_FAULTS:
            raise IsolatedError(f"{len(found)} other variables cannot be read, this one was not tried")


_met: dict[tuple[Any, ...], _Met] = {}
"""Of a file as it was."""


def identity(path: str) -> list[int]:
    """What changes where a file is replaced or written to."""
    about = os.stat(path)
    return [about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns]


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
    """For JSON."""
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
