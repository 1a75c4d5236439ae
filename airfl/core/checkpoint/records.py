"""The records of a run's rounds, appended to a file one pack after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.core.checkpoint.serialisation import deserialise, serialise
from airfl.core.record import Record
from airfl.storage.atomic_io import sync
from airfl.storage.own_files import opener

RECORDS_NAME = "records"


class Records:
    """A file of records, open for appending after its first `length` bytes; the rest is truncated."""

    def __init__(self, path: Path, length: int = 0) -> None:
        self._file = open(path, "r+b" if length else "wb", opener=opener)  # noqa: SIM115  closed by `close`
        self._file.truncate(length)
        self.length = self._file.seek(0, 2)

    def append(self, record: Record) -> None:
        """Append the record of one round. It is on disk only after `sync`."""
        self.length += serialise(self._file, None, {name: np.asarray(value) for name, value in record.items()})

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
