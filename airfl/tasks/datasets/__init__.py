"""The table of data sets. A new one is a loader beside this file and one line here; torch is not needed to load one."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol, cast

from airfl import shipped
from airfl.errors import UserError
from airfl.output import current_folder
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.table import Table


class Loader(Protocol):
    """What a data set's module offers."""

    def files(self, folder: Path) -> list[Path]:
        """The files it would read there; empty if the data set is not in this folder, UserError if it is in part."""
        ...

    def load(self, folder: Path) -> RawData:
        """The data set; UserError if a file is wrong."""
        ...


Kind = Literal["pixels", "features", "text"]


@dataclass(frozen=True)
class DatasetEntry:
    """A data set.

    home: the module with its `files` and `load`; folders: where it may lie below a data folder, its own name first;
    input_shape: of one input; training_samples: how many there are for training, for checks before data is read (of
    LEAF's data sets the nine tenths or four fifths of the complete one: a copy may have fewer); kind: what inputs are;
    licence: the terms of use, as far as whoever publishes it states them;
    writers: what names the writer of each sample, empty where nothing does; cached: decoded arrays are kept.
    """

    home: str
    folders: tuple[str, ...]
    input_shape: tuple[int, ...]
    classes: int
    training_samples: int
    text: str
    licence: str
    writers: str = ""
    kind: Kind = "pixels"
    cached: bool = True

    @property
    def loader(self) -> Loader:
        """The module at `home`."""
        return cast(Loader, import_module(f"airfl.tasks.datasets.{self.home}"))


_ENTRIES: dict[str, DatasetEntry] = {
    "fashion-mnist-sample": DatasetEntry(
        "fashion_mnist_sample",
        ("fashion-mnist-sample",),
        (1, 28, 28),
        10,
        10_000,
        "10,000 + 2,000 images of Fashion-MNIST, kept with the code",
        "MIT, Zalando SE",
        cached=False,
    ),
    "fashion-mnist": DatasetEntry(
        "fashion_mnist",
        ("fashion-mnist", "FashionMNIST/raw"),
        (1, 28, 28),
        10,
        60_000,
        "60,000 + 10,000 pictures of clothes, idx files",
        "MIT, Zalando SE",
    ),
    "mnist": DatasetEntry(
        "mnist",
        ("mnist", "MNIST/raw"),
        (1, 28, 28),
        10,
        60_000,
        "60,000 + 10,000 digits, idx files; by 539 writers with QMNIST's label files",
        "MNIST: not stated with the files, Y. LeCun and C. Cortes; QMNIST's repository: BSD 3-Clause",
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
        50_000,
        "50,000 + 10,000 colour pictures, binary or pickled batches",
        "not stated; to be cited: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    ),
    "femnist": DatasetEntry(
        "femnist",
        ("femnist",),
        (1, 28, 28),
        62,
        736_065,
        "characters by writer, LEAF's JSON or a compact npz",
        "not stated; characters of NIST Special Database 19, prepared by LEAF (BSD 2-Clause)",
        writers="its own files",
    ),
    "svhn": DatasetEntry(
        "svhn",
        ("svhn", "SVHN"),
        (3, 32, 32),
        10,
        73_257,
        "73,257 + 26,032 digits of house numbers, .mat files",
        "non-commercial use only; Y. Netzer and others, Stanford and Google, 2011",
    ),
    "svhn-extra": DatasetEntry(
        "svhn_extra",
        ("svhn-extra", "svhn", "SVHN"),
        (3, 32, 32),
        10,
        604_388,
        "the same with its 531,131 additional digits, 604,388 + 26,032 (Fed-SMP)",
        "non-commercial use only; Y. Netzer and others, Stanford and Google, 2011",
    ),
    "a9a-sample": DatasetEntry(
        "a9a_sample",
        ("a9a-sample",),
        (123,),
        2,
        2_000,
        "2,000 + 1,000 rows of a9a, kept with the code",
        "derived from UCI Adult (CC BY 4.0), B. Becker and R. Kohavi",
        kind="features",
        cached=False,
    ),
    "a9a": DatasetEntry(
        "a9a",
        ("a9a",),
        (123,),
        2,
        32_561,
        "32,561 + 16,281 people by 123 features that are 0 or 1, LIBSVM text",
        "derived from UCI Adult (CC BY 4.0), B. Becker and R. Kohavi",
        kind="features",
    ),
    "shakespeare": DatasetEntry(
        "shakespeare",
        ("shakespeare",),
        (80,),
        90,
        3_380_926,
        "80 characters and the next one by speaker, LEAF's JSON",
        "the plays are in the public domain; Project Gutenberg's edition, under its terms; LEAF (BSD 2-Clause)",
        writers="its own files",
        kind="text",
    ),
    "shakespeare-plays": DatasetEntry(
        "shakespeare_plays",
        ("shakespeare-plays", "shakespeare"),
        (80,),
        90,
        652_703,
        "the same from plain texts of the plays, every fifth position",
        "the plays are in the public domain; Project Gutenberg's edition, under its terms",
        writers="its own files",
        kind="text",
    ),
}
DATASETS = Table("task.dataset", _ENTRIES)


def data_folders(data_dir: str | Path | None = None) -> list[Path]:
    """Where data is looked for, in order: `data_dir` (--data-dir), AIRFL_DATA, ./data, the samples with airfl."""
    named = os.environ.get("AIRFL_DATA")
    first, here = [Path(folder) for folder in (data_dir, named) if folder], current_folder()
    return list(dict.fromkeys([*first, *([here / "data"] if here else []), shipped.data_folder()]))


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
        return copy.deepcopy(_decoded(name, place.resolve(), _state(place)))

    from airfl.tasks.datasets.cache import cached

    return cached(name, entry.loader.files(place), lambda: entry.loader.load(place))


@functools.lru_cache(maxsize=2)
def _decoded(name: str, folder: Path, state: frozenset[tuple[str, int, int]]) -> RawData:
    """A sample that comes with airfl, decoded once a process for files in this state."""
    del state
    return DATASETS[name].loader.load(folder)


def _state(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Changes with the size and time of any file in the folder."""
    states = ((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    return frozenset((name, state.st_size, state.st_mtime_ns) for name, state in states)
