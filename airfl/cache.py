"""Where things are kept that were computed once: decoded data sets, privacy figures."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path

from airfl.errors import UserError
from airfl.own import is_file, open_own

TAG_NAME = "CACHEDIR.TAG"
TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# airfl keeps here what it can compute again; delete it at will.\n"
"""As bford.info/cachedir has it: programs that make backups leave such folders out."""


def cache_folder() -> Path:
    """AIRFL_CACHE, else the user's cache folder of this system."""
    named = os.environ.get("AIRFL_CACHE")
    return Path(named) if named else user_cache_path("airfl")


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
