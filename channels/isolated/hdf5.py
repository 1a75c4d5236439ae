"""HDF5: everything that a reader may look at is looked at once. Errors are the reader's to tell; this has to live."""

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
"""A variable that is said to be larger than this is read at both ends only."""


def probe(path: str | Path) -> None:
    """IsolatedError where reading the file ends the process, or has no end. Takes about a third of a second, once for a
    file that stays as it is; says nothing of whether the file is right."""
    place = Path(path).resolve()
    about = place.stat()
    fault = _tried(str(place), about.st_ino, about.st_size, about.st_mtime_ns)
    if fault:
        raise IsolatedError(fault)


@lru_cache(maxsize=1024)
def _tried(path: str, *_about: int) -> str:
    if not sys.executable:  # Python inside another program: there is none to start
        return ""
    try:
        call(__name__, path)
    except IsolatedError as error:
        return str(error)
    return ""


@contextmanager
def looking() -> Iterator[None]:
    """Errors are nobody's here, but for memory that was not given: whoever has more would have lost it."""
    try:
        yield
    except Exception as error:  # a damaged file can raise anything
        if isinstance(error, MemoryError) or "alloc" in str(error).lower():
            raise MemoryError("reading it would take memory out of all proportion") from None


def visit(item: Any) -> None:
    """Attributes, layout, the index of the chunks, values."""
    import h5py

    for name in list(item.attrs):
        with looking():
            item.attrs[name]
    if not isinstance(item, h5py.Dataset) or item.shape is None or item.is_virtual or item.external:
        return
    with looking():
        _ = item.fillvalue, item.compression, item.maxshape
    with looking():
        item.id.chunk_iter(lambda chunk: None)
    for place in (0, -1):
        with looking():
            item[(place,) * item.ndim]
    if math.prod(item.shape) * item.dtype.itemsize <= READ_BYTES:
        with looking():
            item[...]


def main(path: str) -> bytes:
    """Look at everything in the file itself: links to other files are not followed."""
    import h5py

    with looking(), h5py.File(path, "r") as file:
        names: list[str] = ["/"]
        with looking():
            file.visit(names.append)
        for name in names:
            with looking():
                visit(file[name])
    return b""


if __name__ == "__main__":
    answer(main, "h5py")
