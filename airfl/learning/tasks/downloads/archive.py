"""Extraction of named regular files from untrusted tar archives; all other members are ignored."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from lzma import LZMAError
from pathlib import Path

from airfl.errors import MachineError, UserError
from airfl.learning.tasks.downloads.mirror import BLOCK, reason
from airfl.storage.own_files import opener

PART = ".airfl-part"
"""Suffix of an incomplete file. It names airfl because browsers use .part too."""
LARGEST_MEMBER = 1 << 30  # bytes; a limit is needed since a sparse member takes no room in the archive
# Errors raised when a damaged archive is read: tarfile passes on errors from invalid numbers, and recurses for every
# long name. Other errors of the disk are left to the caller.
DAMAGE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    LZMAError,
    ValueError,
    OverflowError,
    RecursionError,
    MemoryError,
)


def is_there(path: Path) -> bool:
    if os.path.lexists(path) and not path.is_file():
        raise UserError(f"{path}: is not a file; move it away and get the data set again")
    return os.path.lexists(path)


def unpack(archive: Path, folder: Path, members: tuple[str, ...]) -> None:
    """Extract those of the named members that do not exist yet; nothing else in the archive is read."""
    lacking = {member for member in members if not is_there(folder / member)}
    try:
        with tarfile.open(archive) as tar:
            for info in tar:
                if info.name in lacking:
                    _unpack_member(tar, info, archive, folder / info.name)
                    lacking.remove(info.name)
                if not lacking:
                    break
    except DAMAGE as error:
        raise MachineError(f"{archive}: cannot be unpacked ({reason(error)}); remove it and try again") from None
    if lacking:
        raise MachineError(f"{archive}: holds no {', '.join(sorted(lacking))}; remove it and try again")


def _unpack_member(tar: tarfile.TarFile, info: tarfile.TarInfo, archive: Path, path: Path) -> None:
    content = tar.extractfile(info) if info.isreg() else None
    if content is None:
        raise MachineError(f"{archive}: {info.name} in it is not a regular file; remove it and try again")
    if info.size > LARGEST_MEMBER:
        raise MachineError(f"{archive}: {info.name} in it is of {info.size:,} bytes; remove it and try again")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + PART)
    try:
        with content, open(part, "wb", opener=opener) as file:
            shutil.copyfileobj(content, file, BLOCK)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
