"""The table of data sets. A new one is a loader beside this file and one line here; torch is not needed to load one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from airfl.errors import UserError
from airfl.tasks.datasets.raw import RawData


class Loader(Protocol):
    """What a data set's module offers."""

    def files(self, folder: Path) -> list[Path]:
        """The files it would read there; empty if the data set is not in this folder, UserError if it is in part."""
        ...

    def load(self, folder: Path) -> RawData:
        """The data set; UserError if a file is wrong."""
        ...


@dataclass(frozen=True)
class DatasetEntry:
    """A data set.

    home: the module with its `files` and `load`; folders: where it may lie below a data folder, its own name first;
    input_shape: of one input; writers: what names the writer of each sample, empty where nothing does; cached: decoded
    arrays are kept.
    """

    home: str
    folders: tuple[str, ...]
    input_shape: tuple[int, ...]
    classes: int
    text: str
    writers: str = ""
    cached: bool = True

    @property
    def loader(self) -> Loader:
        """The module at `home`."""
        return cast(Loader, import_module(f"airfl.tasks.datasets.{self.home}"))


DATASETS: dict[str, DatasetEntry] = {
    "fashion-mnist-sample": DatasetEntry(
        "fashion_mnist_sample",
        ("fashion-mnist-sample",),
        (1, 28, 28),
        10,
        "10,000 + 2,000 images of Fashion-MNIST, kept with the code",
        cached=False,
    ),
    "fashion-mnist": DatasetEntry(
        "fashion_mnist",
        ("fashion-mnist", "FashionMNIST/raw"),
        (1, 28, 28),
        10,
        "60,000 + 10,000 pictures of clothes, idx files",
    ),
    "mnist": DatasetEntry(
        "mnist",
        ("mnist", "MNIST/raw"),
        (1, 28, 28),
        10,
        "60,000 + 10,000 digits, idx files; by 539 writers with QMNIST's label files",
        writers="QMNIST's label files",
    ),
    "cifar10": DatasetEntry(
        "cifar10",
        (
            "cifar10/cifar-10-batches-bin",
            "cifar10",
            "cifar-10-batches-bin",
            "cifar10/cifar-10-batches-py",
            "cifar-10-batches-py",
        ),
        (3, 32, 32),
        10,
        "50,000 + 10,000 colour pictures, binary or pickled batches",
    ),
    "femnist": DatasetEntry(
        "femnist",
        ("femnist",),
        (1, 28, 28),
        62,
        "characters by writer, LEAF's JSON or a compact npz",
        writers="its own files",
    ),
}


def data_folders(data_dir: str | Path | None = None) -> list[Path]:
    """Where data is looked for, in order: `data_dir` (--data-dir), AIRFL_DATA, ./data, data beside this package."""
    beside = Path(__file__).resolve().parents[3] / "data"
    named = os.environ.get("AIRFL_DATA")
    first = [Path(folder) for folder in (data_dir, named) if folder]
    return list(dict.fromkeys([*first, Path.cwd() / "data", beside]))


def find_dataset(name: str, folders: Sequence[Path]) -> Path | None:
    """The first folder that holds the data set, None if none does; UserError for one that holds a part of it."""
    entry = DATASETS[name]
    places = [root / below for root in folders for below in entry.folders]
    return next((place for place in places if entry.loader.files(place)), None)


def load_dataset(name: str, folders: Sequence[Path] | None = None) -> RawData:
    """The data set from the first folder that has it; UserError where none does or a file is wrong."""
    entry = DATASETS[name]
    searched = data_folders() if folders is None else list(folders)
    place = find_dataset(name, searched)
    if place is None:
        looked = ", ".join(str(folder) for folder in searched)
        raise UserError(
            f"task.dataset: no {name} in a folder {entry.folders[0]}/ of {looked}; get it with "
            f"`airfl data get {name}`, or name the folder that holds it with --data-dir or AIRFL_DATA"
        )
    if not entry.cached:
        return entry.loader.load(place)

    from airfl.tasks.datasets.cache import cached

    return cached(name, entry.loader.files(place), lambda: entry.loader.load(place))
