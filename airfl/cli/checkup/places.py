"""The folders of data sets, and the cache folders."""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airfl.errors import UserError
from airfl.storage.cache import can_be_written as writable
from airfl.storage.cache import lasting_folder

GENERATED = "generated when a run starts"
"""In place of the folder of a data set that has no files."""


@dataclass(frozen=True)
class CacheFolder:
    """A cache folder.

    Attributes:
        holds: What is cached there.
        path: Its path.
        writable: Whether it is writable.
    """

    holds: str
    path: str
    writable: bool


def found_datasets(folders: Sequence[Path]) -> dict[str, str | None]:
    """Return data set -> its folder, GENERATED, or the problem with its files; None if it was not found."""
    from airfl.learning.tasks.datasets import DATASETS

    return {name: _location(name, folders) for name in DATASETS}


def _location(name: str, folders: Sequence[Path]) -> str | None:
    from airfl.learning.tasks.datasets import DATASETS, GeneratedDataset, find_dataset

    if issubclass(DATASETS[name], GeneratedDataset):
        return GENERATED
    try:
        folder = find_dataset(name, folders)
    except UserError as error:
        return str(error)
    return str(folder) if folder else None


def data_places(data_dir: str | Path | None) -> tuple[tuple[str, ...], dict[str, str | None]]:
    """Return the folders that are searched and the data sets found; both empty if required packages are broken."""
    try:
        from airfl.learning.tasks.datasets import data_folders

        folders = data_folders(data_dir)
        return tuple(map(str, folders)), found_datasets(folders)
    except ImportError:
        return (), {}


def cache_folders() -> tuple[CacheFolder, ...]:
    """Return the cache folders, including that of torch for compiled training."""
    from_environment = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    user = re.sub(r"[\\/:*?\"<>|]", "_", _user())
    compiled = Path(from_environment) if from_environment else Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    folders = [CacheFolder("compiled training", str(compiled), writable(compiled))]
    try:
        folder, is_writable = lasting_folder()
    except ImportError:  # without platformdirs
        return tuple(folders)
    return CacheFolder("decoded data, privacy figures", str(folder), is_writable), *folders


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user has no name; torch uses the same replacement
        return f"uid_{os.getuid()}" if hasattr(os, "getuid") else "unknown_user"
