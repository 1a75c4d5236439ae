"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017), from idx files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from airfl.errors import UserError
from airfl.tasks.datasets.idx import read_idx
from airfl.tasks.datasets.raw import RawData

CLASSES = 10
# Of the complete training set, the usual figures.
MEAN, STD = 0.2860, 0.3530


def load_sample(folder: Path) -> RawData:
    """The sample kept with the code; its files must match their SHA256SUMS."""
    check_sums(folder)
    train_inputs, train_targets = _read_part(folder, "train")
    test_inputs, test_targets = _read_part(folder, "t10k")
    return RawData(train_inputs, train_targets, test_inputs, test_targets, CLASSES, MEAN, STD)


def check_sums(folder: Path) -> None:
    """UserError unless every file named in the folder's SHA256SUMS is there and has its sum."""
    try:
        lines = (folder / "SHA256SUMS").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{folder / 'SHA256SUMS'}: missing or not readable; get the folder again") from None
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


def _read_part(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    images_path, labels_path = (
        folder / f"{part}-images-idx3-ubyte.gz",
        folder / f"{part}-labels-idx1-ubyte.gz",
    )
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if images.shape[1:] != (28, 28):
        raise UserError(f"{images_path}: images of {images.shape[1:]} pixels, (28, 28) is wanted")
    if len(images) != len(labels):
        raise UserError(f"{labels_path}: {len(labels):,} labels for {len(images):,} images")
    if labels.size and labels.max() >= CLASSES:
        raise UserError(f"{labels_path}: label {labels.max()}, 0 to {CLASSES - 1} are allowed")
    return images[:, None], labels.astype(np.int64)
