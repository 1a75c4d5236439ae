"""SVHN (Netzer et al. 2011), house numbers cropped to one digit, from the authors' MAT files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.cache import scratch
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.files import find_all
from airfl.learning.tasks.datasets.formats.mat import MatVariable, read_mat
from airfl.learning.tasks.datasets.raw import RawData, channel_statistics

CLASSES = 10
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
TRAIN, TEST, EXTRA = "train_32x32.mat", "test_32x32.mat", "extra_32x32.mat"
COUNTS = {TRAIN: 73_257, TEST: 26_032, EXTRA: 531_131}
IMAGES_AT_ONCE = 1000


class Svhn(Dataset):
    """SVHN (Netzer et al. 2011), house numbers cropped to one digit, from the authors' MAT files."""

    name = "svhn"
    folders = ("svhn", "SVHN")
    input_shape = (3, 32, 32)
    classes = 10
    training_samples = 73_257
    text = "73,257 + 26,032 digits of house numbers, .mat files"
    licence = "non-commercial use only; Y. Netzer and others, Stanford and Google, 2011"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return the two files; empty if SVHN is not in this folder. Raises UserError if it is incomplete."""
        return find_all(folder, (TRAIN, TEST))

    def load(self, folder: Path) -> RawData:
        """Load 73,257 + 26,032 images; raises UserError if a file is damaged."""
        train, test = self.files(folder)
        return load_parts([train], test)


def load_parts(train: Sequence[Path], test: Path) -> RawData:
    """Load the training parts, in this order, and the test part. The training images are in a file, not in memory."""
    counts = [COUNTS[_name(path)] for path in train]
    inputs, targets = scratch((sum(counts), *SHAPE)), np.empty(sum(counts), dtype=np.int64)
    ends = np.cumsum(counts)
    for path, start, end in zip(train, ends - counts, ends, strict=True):
        _read_part(path, inputs[start:end], targets[start:end])
    test_inputs = np.empty((COUNTS[TEST], *SHAPE), dtype=np.uint8)
    test_targets = np.empty(COUNTS[TEST], dtype=np.int64)
    _read_part(test, test_inputs, test_targets)
    mean, std = channel_statistics(inputs)
    return RawData(inputs, targets, test_inputs, test_targets, CLASSES, mean, std)


def _name(path: Path) -> str:
    """Return the name of the file without the suffix of its compression."""
    return path.name if path.suffix == ".mat" else path.stem


def _read_part(path: Path, inputs: NDArray[np.uint8], targets: NDArray[np.int64]) -> None:
    """Fill inputs [n, 3, 32, 32] and targets [n] from X [32, 32, 3, n] and y [n, 1], where 10 is the digit 0."""
    count = len(targets)

    def take_images(variable: MatVariable) -> None:
        if variable.shape != (32, 32, 3, count) or variable.dtype != np.uint8:
            raise UserError(
                f"{path}: X must be uint8 of shape (32, 32, 3, {count}), got {variable.dtype} of {variable.shape}"
            )
        start = 0
        for block in variable.blocks(IMAGES_AT_ONCE * PIXELS):
            images = block.reshape(-1, 3, 32, 32)  # [n, channel, column, row]: MATLAB's rows run fastest
            inputs[start : start + len(images)] = images.transpose(0, 1, 3, 2)
            start += len(images)

    def take_labels(variable: MatVariable) -> None:
        if variable.shape != (count, 1):
            raise UserError(f"{path}: y must have shape {(count, 1)}, got {variable.shape}")
        [values] = variable.blocks(count)
        if not np.isin(values, np.arange(1, 11)).all():
            raise UserError(f"{path}: labels must be integers from 1 to 10, got {values.min()} to {values.max()}")
        targets[:] = values.astype(np.int64) % CLASSES

    read_mat(path, {"X": take_images, "y": take_labels})
