"""CIFAR-10 (Krizhevsky 2009), from the official binary batches or the pickled ones of the Python version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.array_pickle import load_array_pickle
from airfl.learning.tasks.datasets.formats.files import check_length, find_all, read_at_most, reading
from airfl.learning.tasks.datasets.raw import RawData, channel_statistics

CLASSES = 10
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
RECORDS = 10_000  # in a batch
RECORD_BYTES = 1 + PIXELS
# A pickled batch contains 10,000 file names and labels beside the pixels.
# In protocol 2 Python 3 writes bytes as text, where each byte above 127 takes two.
LARGEST_PICKLE = RECORDS * (2 * PIXELS + 200)
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")

Part = tuple[NDArray[np.uint8], NDArray[np.int64]]


class Cifar10(Dataset):
    """CIFAR-10 (Krizhevsky 2009), from the official binary batches or the pickled ones of the Python version."""

    name = "cifar10"
    folders = (
        "cifar10/cifar-10-batches-bin",
        "cifar10",
        "cifar-10-batches-bin",
        "cifar10/cifar-10-batches-py",
        "cifar-10-batches-py",
    )
    input_shape = (3, 32, 32)
    classes = 10
    training_samples = 50_000
    text = "50,000 + 10,000 colour images, binary or pickled batches"
    licence = "not stated; to be cited: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return the six batches, preferably binary ones; empty if CIFAR-10 is not in this folder."""
        return find_all(folder, [f"{name}.bin" for name in BATCHES]) or find_all(folder, BATCHES)

    def load(self, folder: Path) -> RawData:
        """Load 50,000 + 10,000 images in the official order; raises UserError if a batch is damaged."""
        parts = [_read_batch(path) for path in self.files(folder)]
        train_inputs = np.concatenate([inputs for inputs, _ in parts[:-1]])
        train_targets = np.concatenate([targets for _, targets in parts[:-1]])
        mean, std = channel_statistics(train_inputs)
        return RawData(train_inputs, train_targets, *parts[-1], CLASSES, mean, std)


def _read_batch(path: Path) -> Part:
    pixels, labels = _binary(path) if ".bin" in path.suffixes else _pickled(path)
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise UserError(f"{path}: labels must be 0 to {CLASSES - 1}, got {labels.min()} to {labels.max()}")
    return pixels.reshape(-1, *SHAPE), labels


def _binary(path: Path) -> Part:
    """Read records of one label and 3,072 pixels: red, green, blue, row by row."""
    length = RECORDS * RECORD_BYTES
    with reading(path) as file:
        content = read_at_most(file, length + 1)
    check_length(path, content, length)
    records = np.frombuffer(content, dtype=np.uint8).reshape(RECORDS, RECORD_BYTES)
    return records[:, 1:], records[:, 0].astype(np.int64)


def _pickled(path: Path) -> Part:
    """Read a pickled dictionary with b"data", bytes [10000, 3072], and b"labels", a list."""
    with reading(path) as file:
        content = read_at_most(file, LARGEST_PICKLE + 1)
    if len(content) > LARGEST_PICKLE:
        raise UserError(f"{path}: too long for a batch of CIFAR-10; get the file again")
    batch = load_array_pickle(path, content)
    pixels, labels = batch.get(b"data"), batch.get(b"labels")
    if not isinstance(pixels, np.ndarray) or pixels.shape != (RECORDS, PIXELS):
        raise UserError(f"{path}: b'data' must be an array of {RECORDS:,} x {PIXELS:,} bytes; get the file again")
    if not isinstance(labels, list) or len(labels) != RECORDS or not all(type(label) is int for label in labels):
        raise UserError(f"{path}: b'labels' must be a list of {RECORDS:,} integers; get the file again")
    if not all(0 <= label < CLASSES for label in labels):
        wrong = next(label for label in labels if not 0 <= label < CLASSES)
        shown = str(wrong) if abs(wrong) < 1 << 64 else "a number of many digits"
        raise UserError(f"{path}: labels must be 0 to {CLASSES - 1}, got {shown}")
    return pixels, np.array(labels, dtype=np.int64)
