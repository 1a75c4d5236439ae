"""Files of airfl's own, the only ones that it removes or overwrites: regular files that hold a mark it wrote itself.

No link is followed where something is written, and nothing is removed but by a name that airfl gives.
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
"""For marks, at the beginning and at the end of a file."""
HDF5 = b"\x89HDF\r\n\x1a\n"

Marks = Sequence[bytes]
"""What a file of a kind holds, all of it, near its beginning or its end."""


def link_refused(path: Path) -> UserError:
    """For a link where airfl writes."""
    return UserError(
        f"{path}: is a link, and airfl follows none where it writes; remove it, or choose another output folder"
    )


def not_own(path: Path) -> UserError:
    """For what stands in the place of something of airfl's."""
    return UserError(
        f"{path}: airfl did not write this, and removes and overwrites nothing but its own; move it away, or choose "
        "another output folder"
    )


def open_own(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file, opened through no link; UserError for a link and for what is no regular file."""
    try:
        # A pipe that nobody writes would be waited for.
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
    """For `open`: follows no link."""
    return open_own(Path(path), flags)


def check_no_link(path: Path) -> None:
    """UserError where a link is, whether or not it leads anywhere."""
    with suppress(OSError):  # what has no name that a link could have is told by others
        if path.is_symlink():
            raise link_refused(path)


def is_folder(path: Path) -> bool:
    """Whether it is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether it is a regular file, and not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def both_ends(path: Path) -> bytes:
    """Of a regular file; UserError for anything else, OSError where it cannot be read."""
    with os.fdopen(open_own(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(BYTES_LOOKED_AT)
        file.seek(max(size - BYTES_LOOKED_AT, len(head)))
        return head + file.read(BYTES_LOOKED_AT)


def check_own_file(path: Path, marks: Marks) -> None:
    """UserError unless nothing is there, or a file that holds these marks."""
    if not os.path.lexists(path):
        return
    try:
        found = both_ends(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); move it away") from None
    if not all(mark in found for mark in marks):
        raise not_own(path)


def check_own_files(folder: Path, marks: dict[str, tuple[bytes, ...]]) -> None:
    """The same of several, by name."""
    for name, wanted in marks.items():
        check_own_file(folder / name, wanted)


def is_begun_hdf5(path: Path) -> bool:
    """Whether a regular file is the beginning of an HDF5 file, however short, or what a crash makes of one."""
    try:
        with os.fdopen(open_own(path), "rb") as file:
            head = file.read(len(HDF5))
    except (OSError, UserError):
        return False
    return HDF5.startswith(head) or not any(head)


def remove_files(folder: Path, own: Callable[[str], bool], last: str = "") -> None:
    """Remove the regular files in a folder whose names are own, `last` after all others; OSError. Of a link, and of
    what is in it, nothing."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in sorted(os.listdir(descriptor), key=lambda name: (name == last, name)):
            if own(name) and stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)
