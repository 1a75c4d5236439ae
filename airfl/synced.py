"""Files that are on disk whole, or not there: what a power cut leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from airfl.output import replacing


def sync(file: BinaryIO | Any) -> None:
    """Have what was written to an open file on disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_path(path: Path) -> None:
    """Have a file, or the names in a folder, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """write(file), then put it in its place: a kill or a power cut at any moment leaves the old file or the new one."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        write(file)
        sync(file)
    sync_path(path.parent)
