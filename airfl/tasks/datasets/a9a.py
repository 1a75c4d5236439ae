"""a9a (UCI Adult in J. Platt's encoding): 123 features that are 0 or 1, from LIBSVM's text files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.formats.files import find_all
from airfl.tasks.datasets.formats.libsvm import read_libsvm
from airfl.tasks.datasets.raw import RawData

CLASSES = 2
FEATURES = 123  # index 123 does not occur in a9a.t
TRAIN, TEST = 32_561, 16_281
NAMES = ("a9a", "a9a.t")


class A9a(Dataset):
    """a9a (UCI Adult in J. Platt's encoding): 123 features that are 0 or 1, from LIBSVM's text files."""

    name = "a9a"
    folders = ("a9a",)
    input_shape = (123,)
    classes = 2
    training_samples = 32_561
    text = "32,561 + 16,281 people by 123 features that are 0 or 1, LIBSVM text"
    licence = "derived from UCI Adult (CC BY 4.0), B. Becker and R. Kohavi"
    kind = "features"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """The two files; empty if a9a is not in this folder, UserError if it is in part."""
        return find_all(folder, NAMES)

    def load(self, folder: Path) -> RawData:
        """32,561 + 16,281 rows in the official order, label -1 as class 0, +1 as class 1; UserError if one is wrong."""
        return load_rows(folder, TRAIN, TEST)


def load_rows(folder: Path, train: int, test: int) -> RawData:
    """The data set of a folder laid out like a9a, with that many rows of each part; UserError otherwise."""
    train_path, test_path = find_all(folder, NAMES)
    parts = (*_read_part(train_path, train), *_read_part(test_path, test))
    return RawData(*parts, classes=CLASSES, mean=(), std=())


def _read_part(path: Path, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    labels, inputs = read_libsvm(path, rows, FEATURES)
    if inputs.dtype != np.uint8:
        raise UserError(f"{path}: a value other than 0 and 1, which a9a does not have; get the file again")
    strange = labels[np.abs(labels) != 1]
    if len(strange):
        raise UserError(f"{path}: label {strange[0]:g}, -1 and +1 are allowed")
    return inputs, (labels > 0).astype(np.int64)
