"""Opens files that the user names: only regular files of a bounded size, without ever blocking."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from airfl.errors import UserError

SETTINGS_BYTES = 1 << 24
"""Largest size of a settings file, which allows for the coordinates of about 400,000 devices."""
LIST_BYTES = 1 << 26
"""Largest size of a list that airfl wrote: the points of a sweep, the digest of a run."""

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def as_path(given: object) -> Path:
    """Convert to a path; UserError if it is not a str or path-like object of text."""
    if isinstance(given, str | os.PathLike) and isinstance(given := os.fspath(given), str):
        return Path(given)
    raise UserError(f"expected the path of a file or folder, for instance 'runs/first', got {given!r}")


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading. OSError, with the reason as its strerror, for any other kind of file.

    Opening a pipe could block forever, and reading a device may never end.
    """
    _check_regular(os.stat(path), path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_regular(os.fstat(descriptor), path)  # the file may have been replaced in the meantime
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | Path, most: int) -> bytes:
    """Return the contents of a file; OSError as of `open_regular`, and if it is larger than `most` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        # `read` allocates a buffer of the given size at once.
        content = b"" if size > most else file.read(size + 1)
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes, the limit for a file of this kind", str(path))
    return content


def _check_regular(status: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file", str(path))
