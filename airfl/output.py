"""Output folders: what may be written where, checked before anything is computed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airfl.errors import UserError

TRACE_NAME = "trace.h5"
ROWS_NAME = "rows.json"  # of a comparison: its labels and folders, in order
CHECKPOINT_NAME = "checkpoint"  # of a run that is not finished: see airfl.checkpoint
LONGEST_NAME = 255  # that file systems take, in bytes
SWEEP_NAME = "sweep.json"  # of a sweep: its points, in order


def is_a_name(text: str) -> bool:
    """Whether a file or folder can have this name: read from a list, it leads nowhere else."""
    return Path(text).name == text and "\0" not in text and len(text.encode(errors="replace")) <= LONGEST_NAME


def name_of_label(label: str) -> str:
    """A folder's name for a label of a user's: small letters, digits, dots and hyphens; "" where there are none."""
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.")


def check_no_run(folder: Path) -> None:
    """UserError if a run cannot be put into this folder: it holds one already, or is (below) a file."""
    if (folder / CHECKPOINT_NAME).exists():
        raise UserError(
            f"{folder}: holds a run that is not finished; go on with it by --resume, or choose another --out"
        )
    if (folder / TRACE_NAME).exists():
        raise UserError(f"{folder}: holds a run already ({TRACE_NAME}); choose another --out")
    check_can_be_folder(folder)


def check_can_be_folder(folder: Path) -> None:
    """UserError where a file is in the place of the folder, or of one that it lies in."""
    for part in (folder, *folder.parents):
        if part.exists():
            if not part.is_dir():
                raise UserError(f"{part}: is a file, an output folder is wanted")
            return


def check_new(folder: Path) -> None:
    """UserError unless the folder is empty or not there: nothing is mixed with what somebody else put there."""
    check_no_run(folder)
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: is not an empty folder; choose another --out")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write in the block, which then takes the place of `path`: whole, or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write the file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text + "\n")
