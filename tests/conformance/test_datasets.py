"""Conformance of every registered data set."""

from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets import DATASETS, GeneratedDataset, find_dataset, load_dataset
from airfl.learning.tasks.downloads.sources import DOWNLOADS, NOT_DOWNLOADABLE
from airfl.learning.tasks.models import MODELS
from tests.conftest import ROOT

GENERATED = [name for name, entry in DATASETS.items() if issubclass(entry, GeneratedDataset)]
STORED = [name for name in DATASETS if name not in GENERATED]
SAMPLES = ("fashion-mnist-sample", "a9a-sample")  # kept with the code


@pytest.mark.parametrize("name", STORED)
def test_an_empty_folder_does_not_have_it(name: str, tmp_path: Path) -> None:
    assert DATASETS[name]().files(tmp_path / "nowhere") == []
    assert find_dataset(name, [tmp_path]) is None


@pytest.mark.parametrize("name", [name for name in DATASETS if name not in SAMPLES])
def test_it_can_be_downloaded_to_where_it_is_looked_for(name: str) -> None:
    """Or it is said why not."""
    assert (name in DOWNLOADS) != (name in NOT_DOWNLOADABLE)
    if name in DOWNLOADS:
        folders = [download.folder for download in DOWNLOADS[name]]
        assert any(place.split("/")[0] == folders[0] for place in DATASETS[name].folders or ())


@pytest.mark.parametrize("name", STORED)
def test_its_entry_is_consistent_and_a_model_fits_it(name: str) -> None:
    entry = DATASETS[name]
    assert (entry.input_shape, entry.classes) in [(model.input_shape, model.classes) for model in MODELS.values()]
    assert (entry.folders or ("",))[0].split("/")[0] == name
    assert entry.training_samples
    assert len(entry.input_shape) == {"pixels": 3, "features": 1, "text": 1}[entry.kind]
    assert entry.cached == (name not in SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_as_its_entry_says(name: str) -> None:
    raw, entry = load_dataset(name, [ROOT / "data"]), DATASETS[name]
    assert raw.train_inputs.shape[1:] == raw.test_inputs.shape[1:] == entry.input_shape
    assert raw.train_inputs.dtype == raw.test_inputs.dtype == np.uint8
    assert raw.classes == entry.classes
    assert len(raw.train_targets) == entry.training_samples
    assert len(raw.mean) == len(raw.std) == (entry.input_shape[0] if entry.kind == "pixels" else 0)


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_one_has_samples_of_the_shape_and_classes_that_it_declares(name: str) -> None:
    entry = DATASETS[name]()
    common = entry.common(np.random.default_rng(0))
    inputs, targets = entry.draw(np.random.default_rng(1), 500, common)
    assert (inputs.dtype, inputs.shape, targets.dtype) == (np.float32, (500, *entry.input_shape), np.int64)
    assert set(targets.tolist()) <= set(range(entry.classes))
    assert entry.kind == "features"
    assert not entry.bytes
    train, test = entry.counts(np.array([0.0, 0.5, 1 - 2.0**-53]))
    assert train.min() >= 1
    assert test.min() >= 1
    assert len(load_dataset(name).train_targets) == 0
    fitted = MODELS["softmax"]().fitted(entry)
    assert (tuple(fitted.input_shape), fitted.classes) == (entry.input_shape, entry.classes)
