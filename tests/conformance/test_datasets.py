"""One suite over every data set of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from airfl.tasks.datasets import DATASETS, find_dataset, load_dataset
from airfl.tasks.downloads.sources import DOWNLOADS, NOT_DOWNLOADABLE
from airfl.tasks.models import MODELS
from tests.conftest import ROOT


@pytest.mark.parametrize("name", DATASETS)
def test_an_empty_folder_does_not_have_it(name: str, tmp_path: Path) -> None:
    assert DATASETS[name].loader.files(tmp_path / "nowhere") == []
    assert find_dataset(name, [tmp_path]) is None


@pytest.mark.parametrize("name", DATASETS)
def test_a_model_fits_it(name: str) -> None:
    entry = DATASETS[name]
    assert any((model.input_shape, model.classes) == (entry.input_shape, entry.classes) for model in MODELS.values())


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "fashion-mnist-sample"])
def test_it_can_be_downloaded_to_where_it_is_looked_for(name: str) -> None:
    """Or it is said why not."""
    assert (name in DOWNLOADS) != (name in NOT_DOWNLOADABLE)
    if name in DOWNLOADS:
        folders = [download.folder for download in DOWNLOADS[name]]
        assert any(place.split("/")[0] == folders[0] for place in DATASETS[name].folders)


def test_the_sample_is_as_its_entry_says() -> None:
    raw, entry = load_dataset("fashion-mnist-sample", [ROOT / "data"]), DATASETS["fashion-mnist-sample"]
    assert raw.train_inputs.shape[1:] == raw.test_inputs.shape[1:] == entry.input_shape
    assert raw.classes == entry.classes
    assert len(raw.mean) == len(raw.std) == entry.input_shape[0]
