"""LEAF's Shakespeare (Caldas et al. 2018), with its own split: predict a speaker's next character from the last 80."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.characters import VOCABULARY, WINDOW, encode
from airfl.learning.tasks.datasets.formats.leaf import read_users, split_files
from airfl.learning.tasks.datasets.raw import RawData

Part = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]  # inputs, targets, writers


class Shakespeare(Dataset):
    """LEAF's Shakespeare (Caldas et al. 2018): predict a speaker's next character from the last 80."""

    name = "shakespeare"
    folders = ("shakespeare",)
    input_shape = (80,)
    classes = 90
    training_samples = 3_380_926
    text = "next character from 80 characters, by speaker, LEAF's JSON"
    licence = "the plays are in the public domain; Project Gutenberg's edition, under its terms; LEAF (BSD 2-Clause)"
    writers = "its own files"
    kind = "text"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return LEAF's split files in train/ and test/, here or in data/; empty if this folder has neither."""
        return split_files(folder) or split_files(folder / "data")

    def load(self, folder: Path) -> RawData:
        """Load all speakers of the files, numbered in order of appearance; raises UserError if a file is damaged."""
        numbers: dict[str, int] = {}
        parts: dict[str, list[Part]] = {"train": [], "test": []}
        seen: set[tuple[str, str]] = set()
        for path in self.files(folder):
            for user, x, y in read_users(path):
                if (path.parent.name, user) in seen:
                    raise UserError(f"{path}: user {user!r} occurs twice; keep the files of one preprocessing only")
                seen.add((path.parent.name, user))
                windows, nexts = _ids(path, user, x, WINDOW), _ids(path, user, y, 1)
                writers = np.full(len(y), numbers.setdefault(user, len(numbers)), dtype=np.int64)
                parts[path.parent.name].append((windows, nexts[:, 0].astype(np.int64), writers))
        (train_inputs, train_targets, train_writers), (test_inputs, test_targets, test_writers) = (
            _joined(parts[name]) for name in ("train", "test")
        )
        if not (len(train_targets) and len(test_targets)):
            raise UserError(
                f"{folder}: must have training and test samples, got {len(train_targets)} and {len(test_targets)}"
            )
        return RawData(
            train_inputs, train_targets, test_inputs, test_targets, VOCABULARY, (), (), train_writers, test_writers
        )


def _ids(path: Path, user: str, texts: list[Any], length: int) -> NDArray[np.uint8]:
    """Return the ids of texts of `length` characters each, [n, length]."""
    if not all(isinstance(text, str) and len(text) == length for text in texts):
        what = f"x must be strings of {length} characters" if length > 1 else "y must be single characters"
        raise UserError(f"{path}: user {user!r}: {what}")
    return encode("".join(texts)).reshape(-1, length)


def _joined(parts: list[Part]) -> Part:
    none = (np.empty((0, WINDOW), dtype=np.uint8), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    inputs, targets, writers = (np.concatenate(arrays) for arrays in zip(none, *parts, strict=True))
    return inputs, targets, writers
