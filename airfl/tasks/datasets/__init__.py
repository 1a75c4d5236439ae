"""The table of data sets. A new one is a loader beside this file and one line here; torch is not needed to load one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from airfl.errors import UserError
from airfl.tasks.datasets.raw import RawData


@dataclass(frozen=True)
class DatasetEntry:
    """A data set: its folder below a data folder, its loader, shape of one input, classes, one line of text."""

    folder: str
    load: Callable[[Path], RawData]
    input_shape: tuple[int, ...]
    classes: int
    text: str


def _fashion_mnist_sample(folder: Path) -> RawData:
    from airfl.tasks.datasets.fashion_mnist import load_sample

    return load_sample(folder)


DATASETS: dict[str, DatasetEntry] = {
    "fashion-mnist-sample": DatasetEntry(
        "fashion-mnist-sample",
        _fashion_mnist_sample,
        (1, 28, 28),
        10,
        "10,000 + 2,000 images of Fashion-MNIST, kept with the code",
    ),
}


def data_folders() -> list[Path]:
    """Where data is looked for, in order: AIRFL_DATA, ./data, the data folder beside this package."""
    beside = Path(__file__).resolve().parents[3] / "data"
    named = os.environ.get("AIRFL_DATA")
    candidates = [Path(named)] if named else []
    return list(dict.fromkeys([*candidates, Path.cwd() / "data", beside]))


def load_dataset(name: str, folders: Sequence[Path] | None = None) -> RawData:
    """The data set from the first folder that has it; UserError where none does or a file is wrong."""
    entry = DATASETS[name]
    searched = data_folders() if folders is None else list(folders)
    for folder in searched:
        if (folder / entry.folder).is_dir():
            return entry.load(folder / entry.folder)
    looked = ", ".join(str(folder) for folder in searched)
    raise UserError(
        f"task.dataset: no folder {entry.folder}/ in {looked}; put it there, or set AIRFL_DATA to where it is"
    )
