"""MNIST (LeCun, Cortes, Burges) from idx files, with writers from QMNIST's label files (Yadav and Bottou 2019)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.files import find, find_all
from airfl.learning.tasks.datasets.formats.idx import INTEGER, read_idx
from airfl.learning.tasks.datasets.raw import RawData, channel_statistics

CLASSES = 10
TRAIN, TEST = 60_000, 10_000
IMAGES, LABELS = "{}-images-idx3-ubyte", "{}-labels-idx1-ubyte"
NAMES = tuple(name.format(part) for part in ("train", "t10k") for name in (IMAGES, LABELS))

QMNIST_LABELS = "qmnist-train-labels-idx2-int"
# Their possible folders, relative to that of the images: the same, a neighbour, or that of torchvision.
QMNIST_FOLDERS = (".", "../mnist-writers", "../../QMNIST/raw")
QMNIST_COLUMNS, CLASS_COLUMN, WRITER_COLUMN = 8, 0, 2


class Mnist(Dataset):
    """MNIST, from its four idx files."""

    name = "mnist"
    folders = ("mnist", "MNIST/raw")
    input_shape = (1, 28, 28)
    classes = 10
    training_samples = 60_000
    text = "60,000 + 10,000 digits, idx files; by 539 writers with QMNIST's label files"
    licence = "MNIST: not stated with the files, Y. LeCun and C. Cortes; QMNIST's repository: BSD 3-Clause"
    writers = "QMNIST's label files"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return the files to read; empty if MNIST is not in this folder. Raises UserError if it is incomplete."""
        images_and_labels = find_all(folder, NAMES)
        writers = _writer_labels(folder)
        return [*images_and_labels, writers] if images_and_labels and writers else images_and_labels

    def load(self, folder: Path) -> RawData:
        """Load images, labels and, if QMNIST's labels are available, the writer of every training image."""
        raw = load_images(folder)
        labels = _writer_labels(folder)
        return RawData(**{**vars(raw), "train_writers": read_writers(labels, raw.train_targets)}) if labels else raw


def load_images(folder: Path, train: int = TRAIN, test: int = TEST) -> RawData:
    """Load images and labels of a folder laid out like MNIST; raises UserError unless there are this many of each."""
    train_inputs, train_targets = _read_part(folder, "train", train)
    test_inputs, test_targets = _read_part(folder, "t10k", test)
    mean, std = channel_statistics(train_inputs)
    return RawData(train_inputs, train_targets, test_inputs, test_targets, CLASSES, mean, std)


def read_writers(path: Path, targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Read the writer of each training image, [n], from a QMNIST label file; its classes must agree with the labels."""
    table = read_idx(path, 2, INTEGER, most=2 * 4 * QMNIST_COLUMNS * len(targets))
    if table.shape != (len(targets), QMNIST_COLUMNS):
        raise UserError(f"{path}: the table must have shape {(len(targets), QMNIST_COLUMNS)}, got {table.shape}")
    differing = np.flatnonzero(table[:, CLASS_COLUMN] != targets)
    if differing.size:
        raise UserError(
            f"{path}: the class of image {differing[0]:,} differs from its MNIST label; the file is for other images"
        )
    writers = table[:, WRITER_COLUMN].astype(np.int64)
    if writers.min(initial=0) < 0:
        raise UserError(f"{path}: writers must be at least 0, got {writers.min()}; get the file again")
    return writers


def _writer_labels(folder: Path) -> Path | None:
    return next((path for place in QMNIST_FOLDERS if (path := find(folder / place, QMNIST_LABELS))), None)


def _read_part(folder: Path, part: str, wanted: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images_path, labels_path = find_all(folder, (IMAGES.format(part), LABELS.format(part)))
    # Up to twice the expected size is read, so that the message can name what is wrong with a slightly larger file.
    images, labels = read_idx(images_path, 3, most=2 * wanted * 28 * 28), read_idx(labels_path, 1, most=2 * wanted)
    if images.shape[1:] != (28, 28):
        raise UserError(f"{images_path}: images must have (28, 28) pixels, got {images.shape[1:]}")
    if len(images) != len(labels):
        raise UserError(f"{labels_path}: must have a label for each of {len(images):,} images, got {len(labels):,}")
    if len(images) != wanted:
        raise UserError(f"{images_path}: must have {wanted:,} images, got {len(images):,}")
    if labels.max() >= CLASSES:
        raise UserError(f"{labels_path}: labels must be 0 to {CLASSES - 1}, got {labels.max()}")
    return images[:, None].astype(np.uint8), labels.astype(np.int64)
