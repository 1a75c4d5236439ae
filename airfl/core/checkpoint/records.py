"""The records of a run's rounds, appended to a file one pack after another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.core.checkpoint.serialisation import CutOffError, deserialise, serialise
from airfl.core.record import Record
from airfl.storage.atomic_io import sync
from airfl.storage.input_files import open_regular
from airfl.storage.own_files import opener

RECORDS_NAME = "records"


class Records:
    """A file of records, open for appending after its first `length` bytes; the rest is truncated."""

    def __init__(self, path: Path, length: int = 0) -> None:
        self._file = open(path, "r+b" if length else "wb", opener=opener)  # noqa: SIM115  closed by `close`
        self._file.truncate(length)
        self.length = self._file.seek(0, 2)

    def append(self, record: Record) -> None:
        """Append the record of one round. Other processes can read it at once; it is on disk only after `sync`."""
        self.length += serialise(self._file, None, {name: np.asarray(value) for name, value in record.items()})
        self._file.flush()

    def sync(self) -> None:
        """Flush all records to disk."""
        sync(self._file)

    def close(self) -> None:
        """Write what was appended and close the file; OSError if that fails."""
        self._file.close()


def read_records(path: Path, length: int) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the records in the first `length` bytes; DamagedCheckpointError if one is damaged."""
    if not length:
        return
    with path.open("rb") as file:
        position = 0
        while position < length:
            _, arrays, size = deserialise(file, length - position)
            position += size
            yield arrays


def read_new_records(path: Path, position: int) -> Iterator[tuple[dict[str, NDArray[Any]], int]]:
    """Yield the records from this position on, each with the position after it, while a run appends to the file.

    A record that is not yet written as a whole ends the iteration. Nothing is locked, and nothing is yielded if the
    file does not reach the position, as when a resumed run has truncated it.

    Raises:
        DamagedCheckpointError: If a record is damaged.
        OSError: If the file cannot be read.
    """
    with open_regular(path) as file:
        file.seek(position)
        size = os.fstat(file.fileno()).st_size
        while position < size:
            try:
                _, arrays, length = deserialise(file, size - position)
            except CutOffError:
                return
            position += length
            yield arrays, position
