"""Fixtures of the tests of data sets."""

from pathlib import Path

import pytest

from airfl.learning.tasks.datasets import cifar10
from tests.unit.datasets.test_cifar10 import RECORDS
from tests.unit.datasets.test_compact_femnist import compact, put_compact


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own."""
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A data folder with a small FEMNIST."""
    put_compact(tmp_path / "data" / "femnist", compact())
    return tmp_path / "data"


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 20 records."""
    monkeypatch.setattr(cifar10, "RECORDS", RECORDS)
    monkeypatch.setattr(cifar10, "LARGEST_PICKLE", RECORDS * (cifar10.PIXELS + 200))
