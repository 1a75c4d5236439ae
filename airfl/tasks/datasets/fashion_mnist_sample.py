"""The sample of Fashion-MNIST that is kept with the code; its files must match their SHA256SUMS."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from airfl.errors import UserError
from airfl.tasks.datasets.mnist import load_images
from airfl.tasks.datasets.raw import RawData

TRAIN, TEST = 10_000, 2_000
# Of the complete training set, the usual figures.
MEAN, STD = (0.2860,), (0.3530,)
SUMS = "SHA256SUMS"


def files(folder: Path) -> list[Path]:
    """The list of its files, if the folder is there at all."""
    return [folder / SUMS] if folder.is_dir() else []


def load(folder: Path) -> RawData:
    """The sample; UserError if a file is missing or not what it was."""
    check_sums(folder)
    return replace(load_images(folder, TRAIN, TEST), mean=MEAN, std=STD)


def check_sums(folder: Path) -> None:
    """UserError unless every file named in the folder's SHA256SUMS is there and has its sum."""
    try:
        lines = (folder / SUMS).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{folder / SUMS}: missing or not readable; get the folder again") from None
    for line in lines:
        expected, _, name = line.partition("  ")
        path = folder / name
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); get the file again") from None
        if found != expected:
            raise UserError(
                f"{path}: wrong or cut off: sha256 {found[:12]}..., wanted {expected[:12]}...; get the file again"
            )
