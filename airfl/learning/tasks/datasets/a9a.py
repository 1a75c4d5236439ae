"""a9a (UCI Adult in J. Platt's encoding): 123 binary features, from LIBSVM's text files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.files import find_all
from airfl.learning.tasks.datasets.formats.libsvm import read_libsvm
from airfl.learning.tasks.datasets.raw import RawData

CLASSES = 2
FEATURES = 123  # index 123 does not occur in a9a.t
TRAIN, TEST = 32_561, 16_281
NAMES = ("a9a", "a9a.t")


class A9a(Dataset):
    """a9a (UCI Adult in J. Platt's encoding): 123 binary features, from LIBSVM's text files."""

    name = "a9a"
    folders = ("a9a",)
    input_shape = (123,)
    classes = 2
    training_samples = 32_561
    text = "32,561 + 16,281 people with 123 binary features, LIBSVM text"
    licence = "derived from UCI Adult (CC BY 4.0), B. Becker and R. Kohavi"
    kind = "features"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return the two files; empty if a9a is not in this folder. Raises UserError if it is incomplete."""
        return find_all(folder, NAMES)

    def load(self, folder: Path) -> RawData:
        """Load 32,561 + 16,281 rows in the official order, with label -1 as class 0 and +1 as class 1.

        Raises UserError if a file is damaged.
        """
        return load_rows(folder, TRAIN, TEST)


def load_rows(folder: Path, train: int, test: int) -> RawData:
    """Load a folder laid out like a9a; raises UserError unless the parts have this many rows."""
    train_path, test_path = find_all(folder, NAMES)
    parts = (*_read_part(train_path, train), *_read_part(test_path, test))
    return RawData(*parts, classes=CLASSES, mean=(), std=())


def _read_part(path: Path, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    labels, inputs = read_libsvm(path, rows, FEATURES)
    if inputs.dtype != np.uint8:
        raise UserError(f"{path}: values must be 0 or 1; get the file again")
    wrong = labels[np.abs(labels) != 1]
    if len(wrong):
        raise UserError(f"{path}: labels must be -1 or +1, got {wrong[0]:g}")
    return inputs, (labels > 0).astype(np.int64)
