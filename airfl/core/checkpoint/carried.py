"""A checkpoint as bytes, for a run that goes on in another folder or on another machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from airfl.core.checkpoint.folder import ABOUT_NAME, STATE_PREFIX, is_own_name
from airfl.core.checkpoint.records import RECORDS_NAME
from airfl.errors import UserError
from airfl.storage.output_files import CHECKPOINT_NAME
from airfl.storage.own_files import not_own, open_own

Files = Mapping[str, bytes]
"""The files of a checkpoint by name: `about`, `records` and the newest state."""


def carried(out: Path) -> dict[str, bytes]:
    """Return the checkpoint in OUT; {} if no state has been saved. A process may be writing it."""
    folder = out / CHECKPOINT_NAME
    for state in sorted(folder.glob(f"{STATE_PREFIX}*"), reverse=True):
        with suppress(OSError, UserError):  # a state that is removed at this moment, for which there is a newer one
            # The records of a state were there before it, and what is appended later is ignored.
            return {name: _content(folder / name) for name in (state.name, ABOUT_NAME, RECORDS_NAME)}
    return {}


def rounds_of(files: Files) -> int:
    """Return the finished rounds of a checkpoint; 0 if there is none."""
    return max((int(name.removeprefix(STATE_PREFIX)) for name in files if name.startswith(STATE_PREFIX)), default=0)


def is_carried(files: object) -> bool:
    """Whether a value, which may be anything, has the names and types of a checkpoint. Its content may be damaged."""
    if not isinstance(files, Mapping) or not all(isinstance(name, str) for name in files):
        return False
    states = [name for name in files if name.startswith(STATE_PREFIX) and is_own_name(name)]
    return {*files} == {*states, ABOUT_NAME, RECORDS_NAME} and len(states) == 1 and all(map(_is_bytes, files.values()))


def put_carried(files: Files, out: Path) -> None:
    """Write a checkpoint into OUT, which contains no run. Raises UserError for other files, and for links."""
    if not is_carried(files):
        raise not_own(out / CHECKPOINT_NAME)
    folder = out / CHECKPOINT_NAME
    folder.mkdir(parents=True)
    for name in sorted(files):  # the state last: without it, there is nothing to resume from
        with os.fdopen(open_own(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(files[name])


def _content(path: Path) -> bytes:
    with os.fdopen(open_own(path), "rb") as file:
        return file.read()


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)
