"""Recognises files that airfl wrote: regular files that contain a mark. Only these are removed or overwritten.

No symbolic link is followed when writing, and only files with names that airfl gives are removed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from airfl.errors import UserError

BYTES_LOOKED_AT = 1 << 16
"""How many bytes at the beginning and at the end of a file are searched for marks."""
HDF5 = b"\x89HDF\r\n\x1a\n"

Marks = Sequence[bytes]
"""Byte strings that a kind of file contains, all of them near its beginning or end."""


def link_refused(path: Path) -> UserError:
    """Return the error for a symbolic link where airfl writes."""
    return UserError(
        f"{path}: is a link, and airfl does not write through links; remove it, or choose another output folder"
    )


def not_own(path: Path) -> UserError:
    """Return the error for a foreign file or folder in the place of one of airfl's."""
    return UserError(
        f"{path}: not written by airfl, which removes and overwrites only its own files; move it away, or choose "
        "another output folder"
    )


def open_own(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file without following links and return its descriptor; UserError for a link or another file."""
    try:
        # Without O_NONBLOCK, opening a pipe would block.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP or path.is_symlink():
            raise link_refused(path) from None
        if error.errno == errno.EISDIR:
            raise not_own(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_own(path)
    return descriptor


def opener(path: str, flags: int) -> int:
    """An opener for the built-in `open` that does not follow links."""
    return open_own(Path(path), flags)


def check_no_link(path: Path) -> None:
    """Raise UserError if the path is a symbolic link, dangling or not."""
    with suppress(OSError):  # invalid names are reported elsewhere
        if path.is_symlink():
            raise link_refused(path)


def is_folder(path: Path) -> bool:
    """Whether the path is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether the path is a regular file, and not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def both_ends(path: Path) -> bytes:
    """Return the beginning and end of a regular file; UserError for other files, OSError if it cannot be read."""
    with os.fdopen(open_own(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(BYTES_LOOKED_AT)
        file.seek(max(size - BYTES_LOOKED_AT, len(head)))
        return head + file.read(BYTES_LOOKED_AT)


def check_own_file(path: Path, marks: Marks) -> None:
    """Raise UserError if the path exists and is not a file that contains these marks."""
    if not os.path.lexists(path):
        return
    try:
        content = both_ends(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); move it away") from None
    if not all(mark in content for mark in marks):
        raise not_own(path)


def check_own_files(folder: Path, marks: dict[str, tuple[bytes, ...]]) -> None:
    """Check several files in a folder as `check_own_file` does; marks: by file name."""
    for name, marks_of_file in marks.items():
        check_own_file(folder / name, marks_of_file)


def is_begun_hdf5(path: Path) -> bool:
    """Whether a regular file begins as HDF5 files do, is shorter than that, or begins with zeros as after a crash."""
    try:
        with os.fdopen(open_own(path), "rb") as file:
            head = file.read(len(HDF5))
    except (OSError, UserError):
        return False
    return HDF5.startswith(head) or not any(head)


def remove_files(folder: Path, own: Callable[[str], bool], last: str = "") -> None:
    """Remove the regular files in a folder whose names are airfl's. Links are neither removed nor followed.

    Args:
        folder: The folder; OSError if it is a link.
        own: Whether a name is one that airfl gives.
        last: Name of the file that is removed after all others.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in sorted(os.listdir(descriptor), key=lambda name: (name == last, name)):
            if own(name) and stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)
