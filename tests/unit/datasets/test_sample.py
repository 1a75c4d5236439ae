"""The sample in the repository; errors are refused in one line that names the file."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets import DATASETS, load_dataset
from airfl.learning.tasks.datasets.fashion_mnist_sample import FashionMnistSample
from tests.conftest import ROOT
from tests.unit.datasets.support import refusal, same

SAMPLE = ROOT / "data" / "fashion-mnist-sample"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The folder of the sample, below `tmp_path`."""
    return shutil.copytree(SAMPLE, tmp_path / "fashion-mnist-sample")


def test_the_sample_is_what_it_says() -> None:
    raw = load_dataset("fashion-mnist-sample", [SAMPLE.parent])
    assert (raw.train_inputs.shape, raw.test_inputs.shape) == ((10_000, 1, 28, 28), (2_000, 1, 28, 28))
    assert raw.train_inputs.max() == 255
    for targets in (raw.train_targets, raw.test_targets):
        # Drawn from ten equal classes: within 5 standard deviations of a tenth each.
        counts = np.bincount(targets, minlength=10)
        assert len(counts) == 10
        assert np.all(np.abs(counts - len(targets) / 10) < 5 * np.sqrt(len(targets) * 0.1 * 0.9))
    # The normalisation is of the complete training set; a sixth of it comes near.
    assert raw.train_inputs.mean() / 255 == pytest.approx(raw.mean[0], abs=0.01)
    assert raw.train_inputs.std() / 255 == pytest.approx(raw.std[0], abs=0.01)


def test_labels_belong_to_their_images() -> None:
    """Images of one class are more like their own mean than like another's: 60% and more by nearest mean."""
    raw = load_dataset("fashion-mnist-sample", [SAMPLE.parent])
    train = raw.train_inputs.reshape(len(raw.train_targets), -1) / 255
    test = raw.test_inputs.reshape(len(raw.test_targets), -1) / 255
    means = np.stack([train[raw.train_targets == label].mean(axis=0) for label in range(10)])
    distances = (means**2).sum(axis=1) - 2 * test @ means.T
    assert np.mean(distances.argmin(axis=1) == raw.test_targets) > 0.6


@pytest.mark.parametrize("file", ["train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "a9a.t.xz"])
def test_a_flipped_byte_is_refused(tmp_path: Path, file: str) -> None:
    """Also by a process that has decoded the sample before."""
    name = "a9a-sample" if file.startswith("a9a") else "fashion-mnist-sample"
    folder = shutil.copytree(SAMPLE.parent / name, tmp_path / name)
    load_dataset(name, [tmp_path])
    content = bytearray((folder / file).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / file).write_bytes(content)
    for load in (lambda: DATASETS[name]().load(folder), lambda: load_dataset(name, [tmp_path])):
        assert "sha256" in refusal(load, folder / file)


def test_a_lost_file_is_refused(copied: Path) -> None:
    (copied / "train-labels-idx1-ubyte.gz").unlink()
    refusal(lambda: FashionMnistSample().load(copied), copied / "train-labels-idx1-ubyte.gz")
    (copied / "SHA256SUMS").unlink()
    refusal(lambda: FashionMnistSample().load(copied), copied / "SHA256SUMS")


def test_what_is_written_into_the_sample_is_nobody_elses() -> None:
    """It is decoded once a process, and everybody has a copy."""
    first = load_dataset("fashion-mnist-sample", [SAMPLE.parent])
    first.train_inputs[:] = first.train_targets[:] = 0
    same(load_dataset("fashion-mnist-sample", [SAMPLE.parent]), FashionMnistSample().load(SAMPLE))


def test_the_first_folder_that_has_it_counts(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (copied / "SHA256SUMS").unlink()
    load_dataset("fashion-mnist-sample", [copied.parent / "empty", SAMPLE.parent, copied.parent])
    monkeypatch.setenv("AIRFL_DATA", str(copied.parent))
    refusal(lambda: load_dataset("fashion-mnist-sample"), copied / "SHA256SUMS")
