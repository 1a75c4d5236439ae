"""The records of a run's rounds, one pack after another in a file that only grows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.checkpoint.pack import read_pack, write_pack
from airfl.own import opener
from airfl.record import Record
from airfl.synced import sync

RECORDS_NAME = "records"


class Records:
    """Open for appending, from a length on; what was behind it is gone."""

    def __init__(self, path: Path, length: int = 0) -> None:
        self._file = open(path, "r+b" if length else "wb", opener=opener)  # noqa: SIM115  closed by `close`
        self._file.truncate(length)
        self.length = self._file.seek(0, 2)

    def append(self, record: Record) -> None:
        """One round; it need not be on disk yet."""
        self.length += write_pack(self._file, None, {name: np.asarray(value) for name, value in record.items()})

    def sync(self) -> None:
        """Have everything on disk."""
        sync(self._file)

    def close(self) -> None:
        """Whatever was appended is written, or this raises."""
        self._file.close()


def read_records(path: Path, length: int) -> Iterator[dict[str, NDArray[Any]]]:
    """The records in the first `length` bytes; DamagedError."""
    if not length:
        return
    with path.open("rb") as file:
        place = 0
        while place < length:
            _, arrays, size = read_pack(file, length - place)
            place += size
            yield arrays
