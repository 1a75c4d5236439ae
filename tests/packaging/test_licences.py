"""Every data set states its license terms, and data sets in the repository include them."""

import json

import pytest

from airfl.cli.lists import datasets
from airfl.learning.tasks.datasets import DATASETS
from airfl.learning.tasks.downloads.sources import DOWNLOADS, hosts
from tests.conftest import ROOT

SAMPLES = {"fashion-mnist-sample": "MIT", "a9a-sample": "CC BY 4.0"}


@pytest.mark.parametrize("name", DATASETS)
def test_a_data_set_has_terms(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    datasets(as_json=True)
    listed = {entry["name"]: entry["licence"] for entry in json.loads(capsys.readouterr().out)}
    assert listed[name] == DATASETS[name].licence
    assert listed[name] == listed[name.removesuffix("-sample")]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_carries_its_licence(name: str) -> None:
    assert SAMPLES[name] in (ROOT / "data" / name / "LICENSE").read_text()
    assert SAMPLES[name] in DATASETS[name].licence
    assert name in (ROOT / "data" / "README.md").read_text()


@pytest.mark.parametrize("name", DOWNLOADS)
def test_a_download_names_its_hosts(name: str) -> None:
    found = hosts(name)
    assert found
    assert all("." in host and "/" not in host for host in found)
