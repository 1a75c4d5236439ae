"""SVHN with its 531,131 additional pictures in the training part, 604,388 in all (as Fed-SMP section 6.1 has it)."""

from __future__ import annotations

from pathlib import Path

from airfl.tasks.datasets.formats.files import find, find_all
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.datasets.svhn import EXTRA, TEST, TRAIN, load_parts


def files(folder: Path) -> list[Path]:
    """The three files; empty if there is no additional part in this folder, UserError if another is missing then."""
    return find_all(folder, (TRAIN, EXTRA, TEST)) if find(folder, EXTRA) else []


def load(folder: Path) -> RawData:
    """604,388 + 26,032 pictures, the additional ones after the others; UserError if a file is wrong."""
    train, extra, test = files(folder)
    return load_parts([train, extra], test)
