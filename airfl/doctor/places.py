"""Where data sets are found, and where what was computed once is kept."""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airfl.cache import can_be_written as writable
from airfl.cache import lasting_folder
from airfl.errors import UserError


@dataclass(frozen=True)
class Kept:
    """A folder that things are kept in.

    Attributes:
        holds: What is kept there.
        path: Its path.
        writable: Whether anything can be kept there.
    """

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
        own, lasts = lasting_folder()
    except ImportError:  # without platformdirs
        return tuple(folders)
    return Kept("decoded data, privacy figures", str(own), lasts), *folders


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, whom torch calls so
        return f"uid_{os.getuid()}" if hasattr(os, "getuid") else "unknown_user"
