"""Search paths of data sets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.learning.tasks.datasets import DATASETS, cifar10, data_folders, femnist, find_dataset, mnist
from airfl.learning.tasks.datasets import load_dataset as load_from
from tests.refusals import one_line
from tests.unit.datasets.support import put, refusal, same
from tests.unit.datasets.test_cifar10 import BATCHES, python2_batch
from tests.unit.datasets.test_compact_femnist import compact, put_compact

FORMS = [
    (name, folder, ending)
    for name, ending in [("mnist", ""), ("fashion-mnist", ".gz"), ("cifar10", ".bin.xz"), ("cifar10", "")]
    for folder in DATASETS[name].folders
]
FORMS += [("mnist", "MNIST/raw", ""), ("fashion-mnist", "FashionMNIST/raw", ""), ("cifar10", "cifar-10-batches-py", "")]


@pytest.mark.parametrize(("name", "folder", "ending"), FORMS)
def test_every_layout_is_found(tmp_path: Path, name: str, folder: str, ending: str) -> None:
    """torchvision's in any case, which are the last ones."""
    names = cifar10.BATCHES if name == "cifar10" else mnist.NAMES
    for file in names:
        put(tmp_path / "two" / folder / f"{file}{ending}", b"")
    (tmp_path / "one").mkdir()
    assert find_dataset(name, [tmp_path / "one", tmp_path / "none", tmp_path / "two"]) == tmp_path / "two" / folder
    assert find_dataset(name, [tmp_path / "one"]) is None


@pytest.mark.usefixtures("small_batches", "kept")
def test_cifar10_is_loaded_as_torchvision_leaves_it(tmp_path: Path) -> None:
    for name, batch in zip(cifar10.BATCHES, BATCHES, strict=True):
        put(tmp_path / "cifar-10-batches-py" / name, python2_batch(*batch))
    put(tmp_path / "cifar-10-batches-py" / "batches.meta", b"not looked at")
    np.testing.assert_array_equal(load_from("cifar10", [tmp_path]).test_targets, BATCHES[5][1])


@pytest.mark.usefixtures("kept")
def test_the_first_folder_wins(tmp_path: Path) -> None:
    for seed, name in enumerate(("one", "two")):
        put_compact(tmp_path / name / "femnist", compact(seed))
    for order in (["one", "two"], ["two", "one"]):
        found = load_from("femnist", [tmp_path / name for name in order])
        same(found, femnist.Femnist().load(tmp_path / order[0] / "femnist"))


def test_folders_are_looked_through_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRFL_DATA", str(tmp_path / "named"))
    beside = Path(airfl.__file__).resolve().parents[1] / "data"
    rest = [tmp_path / "data", beside]
    assert data_folders(tmp_path / "given") == [tmp_path / "given", tmp_path / "named", *rest]
    assert data_folders() == [tmp_path / "named", *rest]
    monkeypatch.setenv("AIRFL_DATA", "")
    assert data_folders() == rest
    monkeypatch.delenv("AIRFL_DATA")
    assert data_folders() == rest


def test_a_part_of_a_data_set_is_not_passed_over(tmp_path: Path) -> None:
    """Another folder may hold all of it: but this is the one that was meant to."""
    for name in mnist.NAMES:
        put(tmp_path / "two" / "mnist" / name, b"")
    put(tmp_path / "one" / "mnist" / mnist.NAMES[0], b"")
    refusal(lambda: load_from("mnist", [tmp_path / "one", tmp_path / "two"]), tmp_path / "one" / "mnist")
    assert find_dataset("mnist", [tmp_path / "two", tmp_path / "one"]) == tmp_path / "two" / "mnist"


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if entry.folders is not None])
def test_a_missing_data_set_is_told_with_what_to_do(tmp_path: Path, kept: Path, name: str) -> None:
    """And leaves no cache."""
    line = refusal(lambda: load_from(name, [tmp_path / "one", tmp_path / "two"]), tmp_path / "one")
    for part in (str(tmp_path / "two"), f"`airfl data get {name}`", "--data-dir", "AIRFL_DATA", f"{name}/"):
        assert part in line
    assert not kept.exists()


@pytest.mark.parametrize("function", [airfl.run, airfl.privacy, airfl.link_budget])
def test_a_data_dir_that_is_no_folder_is_refused(function: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for given in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(
            airfl.UserError, match=one_line("data_dir must be the path of an existing folder", str(given))
        ):
            function("demo", data_dir=given)
