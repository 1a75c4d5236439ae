"""Files that somebody names: regular ones of a bounded size, opened so that nothing is waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from airfl.errors import UserError

SETTINGS_BYTES = 1 << 24
"""Of a settings file, at most: room for the coordinates of some 400,000 devices."""
LIST_BYTES = 1 << 26
"""Of a list that airfl wrote, at most: a sweep's points, a run's digest."""

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def as_path(given: object) -> Path:
    """The path that is given; UserError for what is none."""
    if isinstance(given, str | os.PathLike) and isinstance(given := os.fspath(given), str):
        return Path(given)
    raise UserError(f"the path of a file or a folder is wanted, for instance 'runs/first', got {given!r}")


def open_regular(path: str | Path) -> BinaryIO:
    """The file, open for reading. OSError, whose strerror says it, for what is no regular file: a pipe would be waited
    for without end, a device read without end."""
    _check_regular(os.stat(path), path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_regular(os.fstat(descriptor), path)  # something else may be there by now
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | Path, most: int) -> bytes:
    """All that is in the file; OSError as `open_regular`, and for more than `most` bytes, of which no more are read."""
    with open_regular(path) as file:
        # A buffer of the size that is asked for is made at once.
        content = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes, which is too much for what it should be", str(path))
    return content


def _check_regular(about: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(about.st_mode):
        kind = KINDS.get(stat.S_IFMT(about.st_mode), "something else")
        raise OSError(errno.EINVAL, f"{kind}, a regular file is wanted", str(path))
