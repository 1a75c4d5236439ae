"""Data sets: the available ones, how they are located, and how they are loaded.

    airfl.datasets.load_dataset("mnist")

The classes can be imported from here by name; torch is not needed to load data. To add a data set, add a file beside
these and a line in registry.py. A user-defined one derives from `Dataset` and needs no line.
"""

from __future__ import annotations

import copy
import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from airfl.errors import UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.generated import GeneratedDataset
from airfl.learning.tasks.datasets.hugging_face import read_hugging_face
from airfl.learning.tasks.datasets.raw import RawData
from airfl.learning.tasks.datasets.registry import DATASETS
from airfl.storage import resources as shipped
from airfl.storage.fingerprint import fingerprint, is_own
from airfl.storage.output_files import current_folder
from channels.part import lazily

if TYPE_CHECKING:
    # For editors and type checkers, which cannot follow the imports of `__getattr__`.
    from airfl.learning.tasks.datasets.a9a import A9a
    from airfl.learning.tasks.datasets.a9a_sample import A9aSample
    from airfl.learning.tasks.datasets.cifar10 import Cifar10
    from airfl.learning.tasks.datasets.fashion_mnist import FashionMnist
    from airfl.learning.tasks.datasets.fashion_mnist_sample import FashionMnistSample
    from airfl.learning.tasks.datasets.femnist import Femnist
    from airfl.learning.tasks.datasets.gaussian_classes import GaussianClasses
    from airfl.learning.tasks.datasets.mnist import Mnist
    from airfl.learning.tasks.datasets.shakespeare import Shakespeare
    from airfl.learning.tasks.datasets.shakespeare_plays import ShakespearePlays
    from airfl.learning.tasks.datasets.svhn import Svhn
    from airfl.learning.tasks.datasets.svhn_extra import SvhnExtra
    from airfl.learning.tasks.datasets.synthetic import Synthetic

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
    "GaussianClasses",
    "GeneratedDataset",
    "Mnist",
    "RawData",
    "Shakespeare",
    "ShakespearePlays",
    "Svhn",
    "SvhnExtra",
    "Synthetic",
    "data_folders",
    "find_dataset",
    "load_dataset",
    "read_hugging_face",
]


def data_folders(data_dir: str | Path | None = None) -> list[Path]:
    """Return the folders searched for data, in order: `data_dir` (--data-dir), AIRFL_DATA, ./data, airfl's samples."""
    named = os.environ.get("AIRFL_DATA")
    first, here = [Path(folder) for folder in (data_dir, named) if folder], current_folder()
    return list(dict.fromkeys([*first, *([here / "data"] if here else []), shipped.data_folder()]))


def find_dataset(dataset: str | Dataset, folders: Sequence[Path]) -> Path | None:
    """Return the first folder that contains a data set, or None; raises UserError for an incomplete one."""
    part = DATASETS[dataset]() if isinstance(dataset, str) else dataset
    if part.folders is None:
        return folders[0]
    below = part.folders or (part.name,)
    places = [root / folder for root in folders for folder in below]
    return next((place for place in places if part.files(place)), None)


def load_dataset(dataset: str | Dataset, folders: Sequence[Path] | None = None) -> RawData:
    """Load a data set from the first folder that contains it.

    Args:
        dataset: Its name, or a `Dataset` object.
        folders: Folders to search; those of `data_folders` by default.

    Raises UserError if no folder contains it or a file is damaged.
    """
    part = DATASETS[dataset]() if isinstance(dataset, str) else dataset
    searched = data_folders() if folders is None else list(folders)
    own = is_own(part)
    place = _guarded(part, lambda: find_dataset(part, searched)) if own else find_dataset(part, searched)
    if place is None:
        raise UserError(_not_found(part, searched))
    if own:
        return _load_own(part, place)
    if part.folders is None:
        return part.load(place)
    if not part.cached:
        return copy.deepcopy(_decoded(part, place.resolve(), _state(place)))

    from airfl.learning.tasks.datasets.cache import cached

    return cached(part.name, part.files(place), lambda: part.load(place))


def _not_found(dataset: Dataset, searched: Sequence[Path]) -> str:
    """Return the message for a data set that is in none of the folders."""
    folders = ", ".join(str(folder) for folder in searched)
    name = dataset.name or type(dataset).__name__
    below = (dataset.folders or (name,))[0]
    get = "" if is_own(dataset) else f"get it with `airfl data get {name}`, or "
    return (
        f"task.dataset: no {name} in the folder {below}/ of any of {folders}; {get}set --data-dir or AIRFL_DATA to the "
        f"folder that contains {below}/"
    )


def _load_own(dataset: Dataset, place: Path) -> RawData:
    """Load and check a user-defined data set. Its cache entry also depends on its code."""
    from airfl.learning.tasks.datasets.own import checked_data

    def load() -> RawData:
        return checked_data(dataset, _guarded(dataset, lambda: dataset.load(place)))

    files = _guarded(dataset, lambda: dataset.files(place)) if dataset.cached and dataset.folders is not None else []
    if not files:
        return load()

    from airfl.learning.tasks.datasets.cache import cached

    name = re.sub(r"[^A-Za-z0-9]+", "-", dataset.name or type(dataset).__name__)
    return cached(f"{name}-{fingerprint(dataset)}", files, load)


def _guarded(dataset: Dataset, work: Callable[[], T]) -> T:
    """Return the result of user code; its exceptions become a UserError."""
    try:
        return work()
    except UserError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
        raise UserError(f"task.dataset: {dataset!r} cannot be loaded ({reason})") from error


@functools.lru_cache(maxsize=2)
def _decoded(dataset: Dataset, folder: Path, state: frozenset[tuple[str, int, int]]) -> RawData:
    """Load a sample that comes with airfl; cached per process as long as the files are in this state."""
    del state
    return dataset.load(folder)


def _state(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Return names, sizes and modification times of the files in a folder."""
    states = ((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    return frozenset((name, state.st_size, state.st_mtime_ns) for name, state in states)


__getattr__, __dir__ = lazily(__name__, __all__, DATASETS)
