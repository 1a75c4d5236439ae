"""A trial read of HDF5 files in a separate process: everything a reader may access is accessed once.

Ordinary errors are left to the reader to report. The trial fails only if the process crashes or does not terminate.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from channels.isolated.child import IsolatedError, answer, call

READ_BYTES = 1 << 24
"""Only the first and last element are read of variables with a larger declared size."""


def probe(path: str | Path) -> None:
    """Raise IsolatedError if reading the file crashes the process or does not terminate.

    Takes about a third of a second, once for an unchanged file. The contents are not validated.
    """
    resolved = Path(path).resolve()
    status = resolved.stat()
    fault = _tried(str(resolved), status.st_ino, status.st_size, status.st_mtime_ns)
    if fault:
        raise IsolatedError(fault)


@lru_cache(maxsize=1024)
def _tried(path: str, *_status: int) -> str:
    """Return the fault of a trial read, or an empty string. `_status` keys the cache."""
    if not sys.executable:  # embedded Python has no interpreter to start
        return ""
    try:
        call(__name__, path)
    except IsolatedError as error:
        return str(error)
    return ""


@contextmanager
def ignoring_errors() -> Iterator[None]:
    """Ignore all errors except failed allocations, because a reader without a memory limit would not fail there."""
    try:
        yield
    except Exception as error:  # a damaged file can raise anything
        if isinstance(error, MemoryError) or "alloc" in str(error).lower():
            raise MemoryError("reading it needs far too much memory") from None


def visit(item: Any) -> None:
    """Access the attributes, layout, chunk index and values of an item."""
    import h5py

    for name in list(item.attrs):
        with ignoring_errors():
            item.attrs[name]
    if not isinstance(item, h5py.Dataset) or item.shape is None or item.is_virtual or item.external:
        return
    with ignoring_errors():
        _ = item.fillvalue, item.compression, item.maxshape
    with ignoring_errors():
        item.id.chunk_iter(lambda chunk: None)
    for place in (0, -1):
        with ignoring_errors():
            item[(place,) * item.ndim]
    if math.prod(item.shape) * item.dtype.itemsize <= READ_BYTES:
        with ignoring_errors():
            item[...]


def main(path: str) -> bytes:
    """Access everything in the file; links to other files are not followed."""
    import h5py

    with ignoring_errors(), h5py.File(path, "r") as file:
        names: list[str] = ["/"]
        with ignoring_errors():
            file.visit(names.append)
        for name in names:
            with ignoring_errors():
                visit(file[name])
    return b""


if __name__ == "__main__":
    answer(main, "h5py")
