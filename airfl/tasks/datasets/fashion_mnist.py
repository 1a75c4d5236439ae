"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017), from idx files laid out like MNIST's."""

from __future__ import annotations

from pathlib import Path

from airfl.tasks.datasets.formats.files import find_all
from airfl.tasks.datasets.mnist import NAMES, load_images
from airfl.tasks.datasets.raw import RawData


def files(folder: Path) -> list[Path]:
    """The files that are read; empty if it is not in this folder, UserError if it is in part."""
    return find_all(folder, NAMES)


def load(folder: Path) -> RawData:
    """60,000 + 10,000 images; UserError if a file is wrong."""
    return load_images(folder)
