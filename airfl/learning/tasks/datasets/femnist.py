"""FEMNIST (LEAF, Caldas et al. 2018): handwritten characters by writer, from LEAF's JSON or from a compact npz.

White is 255 and ink 0, the reverse of MNIST. A tenth of each writer's samples is for testing: LEAF's own split if the
files are split, otherwise one drawn here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.leaf import json_files, read_users, split_files
from airfl.learning.tasks.datasets.formats.npz import read_npz
from airfl.learning.tasks.datasets.raw import LARGEST_BYTE, RawData, channel_statistics

CLASSES = 62
PIXELS = 28 * 28
COMPACT = "femnist_writers.npz"
ARRAYS = {"images": "u1", "labels": "u1", "is_test": "b", "offsets": "i8", "writers": "U"}
TRAINING_SHARE = 0.9


@dataclass(frozen=True)
class _Samples:
    """Samples in one array each: images [n, 28, 28]; labels, writers and is_test [n]."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    writers: NDArray[np.int64]
    is_test: NDArray[np.bool_]


class Femnist(Dataset):
    """FEMNIST (LEAF, Caldas et al. 2018): handwritten characters by writer, from LEAF's JSON or from a compact npz."""

    name = "femnist"
    folders = ("femnist",)
    input_shape = (1, 28, 28)
    classes = 62
    training_samples = 736_065
    text = "characters by writer, LEAF's JSON or a compact npz"
    licence = "not stated; characters of NIST Special Database 19, prepared by LEAF (BSD 2-Clause)"
    writers = "its own files"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return the compact file, or LEAF's split or unsplit files; empty if FEMNIST is not in this folder."""
        if (folder / COMPACT).is_file():
            return [folder / COMPACT]
        for place in (folder, folder / "data"):
            if split := split_files(place):
                return split
            if unsplit := json_files(place / "all_data"):
                return unsplit
        return []

    def load(self, folder: Path) -> RawData:
        """Load the samples of all writers in the files; raises UserError if a file is damaged."""
        sources = self.files(folder)
        samples = _read_compact(sources[0]) if sources[0].name == COMPACT else _read_leaf(sources)
        train, test = ~samples.is_test, samples.is_test
        if not (train.any() and test.any()):
            raise UserError(
                f"{folder}: must have training and test samples, got {int(train.sum())} and {int(test.sum())}"
            )
        inputs = samples.images[:, None]
        mean, std = channel_statistics(inputs[train])
        return RawData(
            inputs[train],
            samples.labels[train],
            inputs[test],
            samples.labels[test],
            CLASSES,
            mean,
            std,
            samples.writers[train],
            samples.writers[test],
        )


def _read_compact(path: Path) -> _Samples:
    """Read images [n, 28, 28], labels [n] and is_test [n], where writer w has samples offsets[w] to offsets[w + 1]."""
    arrays = read_npz(path, ARRAYS)
    images, labels, is_test, offsets, writers = (arrays[name] for name in ARRAYS)
    count = len(labels) if labels.ndim == 1 else -1
    if images.shape != (count, 28, 28) or is_test.shape != (count,):
        raise UserError(
            f"{path}: images, labels and is_test must have shapes (n, 28, 28), (n,) and (n,), got {images.shape}, "
            f"{labels.shape} and {is_test.shape}"
        )
    ascending = offsets.ndim == 1 and len(offsets) and offsets[0] == 0 and np.all(offsets[1:] >= offsets[:-1])
    if not ascending or offsets[-1] != count or writers.shape != (len(offsets) - 1,):
        raise UserError(
            f"{path}: offsets must ascend from 0 to {count:,}, the number of samples, and be one more than the writers"
        )
    if len(np.unique(writers)) != len(writers):
        raise UserError(f"{path}: writers must be distinct")
    _check_labels(path, labels)
    owner = np.repeat(np.arange(len(writers), dtype=np.int64), np.diff(offsets))
    return _Samples(images, labels.astype(np.int64), owner, is_test)


def _read_leaf(paths: Sequence[Path]) -> _Samples:
    """Read LEAF's files; writers are numbered in order of appearance."""
    numbers: dict[str, int] = {}
    seen: set[tuple[bool, str]] = set()
    parts: list[_Samples] = []
    for path in paths:
        part_name = path.parent.name
        for user, x, y in read_users(path):
            if (part_name == "test", user) in seen:
                raise UserError(f"{path}: user {user!r} occurs twice; keep the files of one preprocessing only")
            seen.add((part_name == "test", user))
            images, labels = _to_images(path, user, x), _to_labels(path, user, y)
            held_out = (
                _draw_test(user, len(labels)) if part_name == "all_data" else np.full(len(y), part_name == "test")
            )
            writer = numbers.setdefault(user, len(numbers))
            parts.append(_Samples(images, labels, np.full(len(labels), writer, dtype=np.int64), held_out))
    if not parts:
        raise UserError(f"{paths[0].parent}: the files contain no users")
    return _Samples(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Samples.__annotations__))


def _to_images(path: Path, user: str, x: list[Any]) -> NDArray[np.uint8]:
    """Convert LEAF's x, numbers k/255, to bytes [n, 28, 28]."""
    try:
        if not all(isinstance(row, list) and {*map(type, row)} <= {int, float} for row in x):
            raise ValueError
        greys = np.array(x, dtype=np.float64).reshape(len(x), PIXELS)
    except (ValueError, TypeError, OverflowError):
        raise UserError(f"{path}: user {user!r}: x must be lists of {PIXELS} numbers") from None
    # Bounds first, since 255 times a larger number may overflow. "not <=" rather than ">", so that nan is refused too.
    within = np.all((greys >= -0.01) & (greys <= 1.01))
    values = greys * LARGEST_BYTE if within else np.array(np.nan)
    levels = np.rint(values)
    if values.size and not (
        np.abs(values - levels).max() <= 0.01 and levels.min() >= 0 and levels.max() <= LARGEST_BYTE
    ):
        raise UserError(f"{path}: user {user!r}: x must be grey levels k/255 between 0 and 1")
    return levels.astype(np.uint8).reshape(-1, 28, 28)


def _to_labels(path: Path, user: str, y: list[Any]) -> NDArray[np.int64]:
    if not all(type(label) is int for label in y):
        raise UserError(f"{path}: user {user!r}: y must be integers")
    if not all(0 <= label < CLASSES for label in y):
        wrong = next(label for label in y if not 0 <= label < CLASSES)
        raise UserError(f"{path}: user {user!r}: labels must be 0 to {CLASSES - 1}, got {str(wrong)[:20]}")
    return np.array(y, dtype=np.int64)


def _check_labels(path: Path, labels: np.ndarray) -> None:
    if labels.size and labels.max() >= CLASSES:
        raise UserError(f"{path}: labels must be 0 to {CLASSES - 1}, got {labels.max()}")


def _draw_test(user: str, count: int) -> NDArray[np.bool_]:
    """Draw a tenth of a writer's samples for testing, seeded by the writer's name and so the same in every run."""
    order = np.random.default_rng(list(user.encode(errors="surrogatepass"))).permutation(count)
    return order >= max(1, int(TRAINING_SHARE * count))
