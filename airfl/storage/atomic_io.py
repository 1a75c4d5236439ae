"""Writes files so that they are complete or missing after a power cut."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from airfl.storage.output_files import replacing


def sync(file: BinaryIO | Any) -> None:
    """Flush an open file to disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_path(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Replace `path` by what `write(file)` writes. A kill or power cut leaves either the old file or the new one."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        write(file)
        sync(file)
    sync_path(path.parent)
