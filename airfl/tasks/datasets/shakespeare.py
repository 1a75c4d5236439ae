"""Shakespeare as LEAF makes it (Caldas et al. 2018): from 80 characters of a speaker the next one, LEAF's own split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.formats.characters import VOCABULARY, WINDOW, encode
from airfl.tasks.datasets.formats.leaf import read_users, split_files
from airfl.tasks.datasets.raw import RawData

Part = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]  # inputs, targets, writers


class Shakespeare(Dataset):
    """Shakespeare as LEAF makes it (Caldas et al. 2018): from 80 characters of a speaker the next one."""

    name = "shakespeare"
    folders = ("shakespeare",)
    input_shape = (80,)
    classes = 90
    training_samples = 3_380_926
    text = "80 characters and the next one by speaker, LEAF's JSON"
    licence = "the plays are in the public domain; Project Gutenberg's edition, under its terms; LEAF (BSD 2-Clause)"
    writers = "its own files"
    kind = "text"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """LEAF's split files, in train/ and test/ there or in data/; empty if it is not in this folder."""
        return split_files(folder) or split_files(folder / "data")

    def load(self, folder: Path) -> RawData:
        """Every speaker of the files, numbered in the order of their first lines; UserError if a file is wrong."""
        numbers: dict[str, int] = {}
        parts: dict[str, list[Part]] = {"train": [], "test": []}
        seen: set[tuple[str, str]] = set()
        for path in self.files(folder):
            for user, x, y in read_users(path):
                if (path.parent.name, user) in seen:
                    raise UserError(f"{path}: user {user!r} is there twice; the files of one preprocessing are wanted")
                seen.add((path.parent.name, user))
                windows, nexts = _ids(path, user, x, WINDOW), _ids(path, user, y, 1)
                writers = np.full(len(y), numbers.setdefault(user, len(numbers)), dtype=np.int64)
                parts[path.parent.name].append((windows, nexts[:, 0].astype(np.int64), writers))
        (train_inputs, train_targets, train_writers), (test_inputs, test_targets, test_writers) = (
            _joined(parts[name]) for name in ("train", "test")
        )
        if not (len(train_targets) and len(test_targets)):
            raise UserError(
                f"{folder}: {len(train_targets)} training and {len(test_targets)} test samples; both are needed"
            )
        return RawData(
            train_inputs, train_targets, test_inputs, test_targets, VOCABULARY, (), (), train_writers, test_writers
        )


def _ids(path: Path, user: str, texts: list[Any], length: int) -> NDArray[np.uint8]:
    """Ids of texts of that many characters each, [n, length]."""
    if not all(isinstance(text, str) and len(text) == length for text in texts):
        what = f"x must be texts of {length} characters" if length > 1 else "y must be single characters"
        raise UserError(f"{path}: user {user!r}: {what}")
    return encode("".join(texts)).reshape(-1, length)


def _joined(parts: list[Part]) -> Part:
    none = (np.empty((0, WINDOW), dtype=np.uint8), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    inputs, targets, writers = (np.concatenate(arrays) for arrays in zip(none, *parts, strict=True))
    return inputs, targets, writers
