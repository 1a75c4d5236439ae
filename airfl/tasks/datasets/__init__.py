"""Data sets: which there are, where they are found, how they are loaded.

    airfl.datasets.load_dataset("mnist")

The classes are here by name; torch is not needed to load one. A new one is one file beside these and one line in
registry.py; a user's own derives from `Dataset`, and needs no line.
"""

from __future__ import annotations

import copy
import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from airfl import shipped
from airfl.errors import UserError
from airfl.fingerprint import fingerprint, is_own
from airfl.output import current_folder
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.datasets.registry import DATASETS
from channels.part import lazily

if TYPE_CHECKING:
    # For editors and type checkers, which do not see what `__getattr__` imports.
    from airfl.tasks.datasets.a9a import A9a
    from airfl.tasks.datasets.a9a_sample import A9aSample
    from airfl.tasks.datasets.cifar10 import Cifar10
    from airfl.tasks.datasets.fashion_mnist import FashionMnist
    from airfl.tasks.datasets.fashion_mnist_sample import FashionMnistSample
    from airfl.tasks.datasets.femnist import Femnist
    from airfl.tasks.datasets.mnist import Mnist
    from airfl.tasks.datasets.shakespeare import Shakespeare
    from airfl.tasks.datasets.shakespeare_plays import ShakespearePlays
    from airfl.tasks.datasets.svhn import Svhn
    from airfl.tasks.datasets.svhn_extra import SvhnExtra

T = TypeVar("T")

__all__ = [
    "DATASETS",
    "A9a",
    "A9aSample",
    "Cifar10",
    "Dataset",
    "FashionMnist",
    "FashionMnistSample",
    "Femnist",
    "Mnist",
    "RawData",
    "Shakespeare",
    "ShakespearePlays",
    "Svhn",
    "SvhnExtra",
    "data_folders",
    "find_dataset",
    "load_dataset",
]


def data_folders(data_dir: str | Path | None = None) -> list[Path]:
    """Where data is looked for, in order: `data_dir` (--data-dir), AIRFL_DATA, ./data, the samples with airfl."""
    named = os.environ.get("AIRFL_DATA")
    first, here = [Path(folder) for folder in (data_dir, named) if folder], current_folder()
    return list(dict.fromkeys([*first, *([here / "data"] if here else []), shipped.data_folder()]))


def find_dataset(given: str | Dataset, folders: Sequence[Path]) -> Path | None:
    """The first folder that holds a data set, None if none does; UserError for one that holds a part of it."""
    dataset = DATASETS[given]() if isinstance(given, str) else given
    if dataset.folders is None:
        return folders[0]
    below = dataset.folders or (dataset.name,)
    places = [root / folder for root in folders for folder in below]
    return next((place for place in places if dataset.files(place)), None)


def load_dataset(given: str | Dataset, folders: Sequence[Path] | None = None) -> RawData:
    """A data set, from the first folder that has it.

    Args:
        given: Its name, or the part itself.
        folders: Where it is looked for; those of `data_folders` by default.

    Raises UserError where no folder has it or a file is wrong.
    """
    dataset = DATASETS[given]() if isinstance(given, str) else given
    searched = data_folders() if folders is None else list(folders)
    own = is_own(dataset)
    place = _guarded(dataset, lambda: find_dataset(dataset, searched)) if own else find_dataset(dataset, searched)
    if place is None:
        raise UserError(_not_found(dataset, searched))
    if own:
        return _load_own(dataset, place)
    if not dataset.cached:
        return copy.deepcopy(_decoded(dataset, place.resolve(), _state(place)))

    from airfl.tasks.datasets.cache import cached

    return cached(dataset.name, dataset.files(place), lambda: dataset.load(place))


def _not_found(dataset: Dataset, searched: Sequence[Path]) -> str:
    looked = ", ".join(str(folder) for folder in searched)
    name = dataset.name or type(dataset).__name__
    below = (dataset.folders or (name,))[0]
    get = "" if is_own(dataset) else f"get it with `airfl data get {name}`, or "
    return (
        f"task.dataset: no {name} in a folder {below}/ of {looked}; {get}name the folder that holds it with --data-dir "
        "or AIRFL_DATA"
    )


def _load_own(dataset: Dataset, place: Path) -> RawData:
    """One of the user's own, held to what it promises. What is kept of it is told from that of other code."""
    from airfl.tasks.datasets.own import checked_data

    def load() -> RawData:
        return checked_data(dataset, _guarded(dataset, lambda: dataset.load(place)))

    files = _guarded(dataset, lambda: dataset.files(place)) if dataset.cached and dataset.folders is not None else []
    if not files:
        return load()

    from airfl.tasks.datasets.cache import cached

    name = re.sub(r"[^A-Za-z0-9]+", "-", dataset.name or type(dataset).__name__)
    return cached(f"{name}-{fingerprint(dataset)}", files, load)


def _guarded(dataset: Dataset, work: Callable[[], T]) -> T:
    """What code of the user's own gives; UserError, in one line, where it raises."""
    try:
        return work()
    except UserError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        told = f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
        raise UserError(f"task.dataset: {dataset!r} cannot be loaded ({told})") from error


@functools.lru_cache(maxsize=2)
def _decoded(dataset: Dataset, folder: Path, state: frozenset[tuple[str, int, int]]) -> RawData:
    """A sample that comes with airfl, decoded once a process for files in this state."""
    del state
    return dataset.load(folder)


def _state(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Changes with the size and time of any file in the folder."""
    states = ((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    return frozenset((name, state.st_size, state.st_mtime_ns) for name, state in states)


__getattr__, __dir__ = lazily(__name__, __all__, DATASETS)
