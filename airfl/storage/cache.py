"""The cache folder, for results that take long to compute: decoded data sets, privacy figures.

If the user has no home folder, or cannot write to it, the cache is a temporary folder that is removed when the process
ends.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from airfl.errors import UserError
from airfl.storage.output_files import may_write
from airfl.storage.own_files import is_file, open_own

NOWHERE = Path("~/.cache/airfl")
"""The path that is shown for a user without a home folder."""

TAG_NAME = "CACHEDIR.TAG"
TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# airfl keeps here what it can compute again; delete it at will.\n"
"""Marks a cache folder as bford.info/cachedir specifies, so that backup programs leave it out."""


def cache_folder() -> Path:
    """Return AIRFL_CACHE if set, else the user's cache folder on this system, else a temporary folder."""
    named = os.environ.get("AIRFL_CACHE")
    return Path(named) if named else _of_the_user() or temporary_folder() / "airfl"


def make_cache_folder() -> Path:
    """Create the cache folder, tag it as airfl's if it is empty, and return it; OSError if this fails."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        with suppress(FileExistsError, UserError):  # another process created it first
            tag = os.fdopen(open_own(folder / TAG_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
            with tag:
                tag.write(TAG)
    return folder


def is_tagged(folder: Path) -> bool:
    """Whether airfl has tagged the folder as its cache, so that files in it that have its names are its own."""
    with suppress(OSError):
        return is_file(folder / TAG_NAME) and (folder / TAG_NAME).read_bytes() == TAG
    return False


def lasting_folder() -> tuple[Path, bool]:
    """Return the cache folder that would outlast this process, and whether it is writable (for `airfl doctor`)."""
    own = Path(os.environ.get("AIRFL_CACHE") or _replaced.get("cache") or _of_the_user() or NOWHERE)
    return own, own != NOWHERE and can_be_written(own)


def can_be_written(folder: Path) -> bool:
    """Whether files can be written into the folder, which is created if it is missing."""
    try:
        there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), None)
        return there is not None and there.is_dir() and may_write(there)
    except OSError:  # no permission to look into a parent folder
        return False


def give_libraries_a_place(environment: MutableMapping[str, str]) -> None:
    """Let Matplotlib and fontconfig use the temporary folder if the user's cache folder is not writable.

    They would print warnings otherwise. Called before a command.
    """
    try:
        own = _of_the_user()
    except ImportError:  # platformdirs is missing, which `airfl doctor` reports
        return
    if own is not None and can_be_written(own):
        return
    _replaced["cache"] = str(own or NOWHERE)
    place = temporary_folder()
    environment["XDG_CACHE_HOME"] = str(place)
    environment.setdefault("MPLCONFIGDIR", str(place / "matplotlib"))


_replaced: dict[str, str] = {}


def _of_the_user() -> Path | None:
    """Return the user's cache folder, or None for a user without a home folder."""
    from platformdirs import user_cache_path

    try:
        own = user_cache_path("airfl")
    except (RuntimeError, KeyError, OSError):  # neither HOME nor an entry in the user database
        return None
    return own if own.is_absolute() else None


@functools.cache
def temporary_folder() -> Path:
    """Return this process's temporary cache folder, or /dev/null, which is not writable, if none can be created."""
    try:
        made = Path(tempfile.mkdtemp(prefix="airfl-cache-"))
    except OSError:
        return Path(os.devnull)
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(folder: Path, made_by: int) -> None:
    if os.getpid() == made_by:  # not in processes forked from this one
        shutil.rmtree(folder, ignore_errors=True)
