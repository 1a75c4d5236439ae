"""The sample of a9a that is kept with the code; its files must match their SHA256SUMS."""

from __future__ import annotations

from pathlib import Path

from airfl.tasks.datasets.a9a import NAMES, load_rows
from airfl.tasks.datasets.formats.sums import SUMS, check_sums
from airfl.tasks.datasets.raw import RawData

TRAIN, TEST = 2_000, 1_000


def files(folder: Path) -> list[Path]:
    """The list of its files, if the folder is there at all."""
    return [folder / SUMS] if folder.is_dir() else []


def load(folder: Path) -> RawData:
    """The first 2,000 + 1,000 rows of a9a; UserError if a file is missing or not what it was."""
    check_sums(folder, NAMES)
    return load_rows(folder, TRAIN, TEST)
