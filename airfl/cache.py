"""Where things are kept that were computed once: decoded data sets, privacy figures.

A user without a home folder, or with one that cannot be written, goes without: what is kept then lies in a temporary
folder that ends with the process.
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
from airfl.output import may_write
from airfl.own import is_file, open_own

NOWHERE = Path("~/.cache/airfl")
"""What is named where a user has no home."""

TAG_NAME = "CACHEDIR.TAG"
TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# airfl keeps here what it can compute again; delete it at will.\n"
"""As bford.info/cachedir has it: programs that make backups leave such folders out."""


def cache_folder() -> Path:
    """AIRFL_CACHE, else the user's cache folder of this system, else a temporary one."""
    named = os.environ.get("AIRFL_CACHE")
    return Path(named) if named else _of_the_user() or temporary_folder() / "airfl"


def make_cache_folder() -> Path:
    """The folder, made; where it is new it is tagged as airfl's. OSError."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        with suppress(FileExistsError, UserError):  # another process was first
            tag = os.fdopen(open_own(folder / TAG_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
            with tag:
                tag.write(TAG)
    return folder


def is_tagged(folder: Path) -> bool:
    """Whether airfl has made the folder for its cache, so that whatever has one of its names there is its own."""
    with suppress(OSError):
        return is_file(folder / TAG_NAME) and (folder / TAG_NAME).read_bytes() == TAG
    return False


def lasting_folder() -> tuple[Path, bool]:
    """Where things would outlive the process, and whether they can: for whoever looks for what is missing."""
    own = Path(os.environ.get("AIRFL_CACHE") or _replaced.get("cache") or _of_the_user() or NOWHERE)
    return own, own != NOWHERE and can_be_written(own)


def can_be_written(folder: Path) -> bool:
    """Whether files can be put there, the folder being made first where it is not there."""
    try:
        there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), None)
        return there is not None and there.is_dir() and may_write(there)
    except OSError:  # a folder that may not even be looked into
        return False


def give_libraries_a_place(environment: MutableMapping[str, str]) -> None:
    """Before a command: where the user's cache folder cannot be written, Matplotlib and fontconfig, which would
    complain line by line, take the temporary folder."""
    try:
        own = _of_the_user()
    except ImportError:  # of platformdirs, which `airfl doctor` tells of
        return
    if own is not None and can_be_written(own):
        return
    _replaced["cache"] = str(own or NOWHERE)
    place = temporary_folder()
    environment["XDG_CACHE_HOME"] = str(place)
    environment.setdefault("MPLCONFIGDIR", str(place / "matplotlib"))


_replaced: dict[str, str] = {}


def _of_the_user() -> Path | None:
    """None for a user without a home folder."""
    from platformdirs import user_cache_path

    try:
        own = user_cache_path("airfl")
    except (RuntimeError, KeyError, OSError):  # neither HOME nor a line in the system's list of users
        return None
    return own if own.is_absolute() else None


@functools.cache
def temporary_folder() -> Path:
    """Of this process; one that cannot be made, where there is no room for one."""
    try:
        made = Path(tempfile.mkdtemp(prefix="airfl-cache-"))
    except OSError:
        return Path(os.devnull)
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(folder: Path, made_by: int) -> None:
    if os.getpid() == made_by:  # and not a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)
