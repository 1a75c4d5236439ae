"""Where data sets are found, and where what was computed once is kept."""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airfl.errors import UserError


@dataclass(frozen=True)
class Kept:
    """A folder that things are kept in, and whether they can be."""

    holds: str
    path: str
    writable: bool


def found_datasets(folders: Sequence[Path]) -> dict[str, str | None]:
    """Data set -> the folder it is in, or what is wrong with what is there; None where it is not."""
    from airfl.tasks.datasets import DATASETS

    return {name: _place(name, folders) for name in DATASETS}


def _place(name: str, folders: Sequence[Path]) -> str | None:
    from airfl.tasks.datasets import find_dataset

    try:
        place = find_dataset(name, folders)
    except UserError as error:
        return str(error)
    return str(place) if place else None


def data_places(data_dir: str | Path | None) -> tuple[tuple[str, ...], dict[str, str | None]]:
    """Where data sets are looked for, which are there; nothing where the base is too broken to look."""
    try:
        from airfl.tasks.datasets import data_folders

        folders = data_folders(data_dir)
        return tuple(map(str, folders)), found_datasets(folders)
    except ImportError:
        return (), {}


def kept() -> tuple[Kept, ...]:
    """The folders of what was computed once, torch's of compiled training among them."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    user = re.sub(r"[\\/:*?\"<>|]", "_", _user())
    compiled = Path(named) if named else Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    folders = [Kept("compiled training", str(compiled), writable(compiled))]
    try:
        from airfl.cache import cache_folder
    except ImportError:  # without platformdirs
        return tuple(folders)
    own = cache_folder()
    return Kept("decoded data, privacy figures", str(own), writable(own)), *folders


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name
        return "user"


def writable(folder: Path) -> bool:
    """Whether files can be put there, the folder being made first where it is not there."""
    there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)
