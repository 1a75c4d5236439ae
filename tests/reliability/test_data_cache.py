"""The cache of decoded data sets: whatever happens to it, what is loaded is what the data set's own files hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from airfl.tasks.datasets import load_dataset
from tests.reliability.data_outcomes import NO_FILES, lay, within_seconds
from tests.reliability.data_samples import form
from tests.reliability.mutations import mutations
from tests.reliability.scale import cases
from tests.unit.datasets.support import same

Measured = Callable[[str], None]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "cache"))


def test_a_damaged_cache_is_noticed(tmp_path: Path, measured: Measured) -> None:
    """Whatever happens to a file of the cache, what is loaded is what the data set's own files hold."""
    sample, _ = form("FEMNIST npz")
    lay(tmp_path / "femnist", sample.content(), "")
    expected = load_dataset("femnist", [tmp_path])
    kept = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert len(kept) == 7
    good = {path: path.read_bytes() for path in kept}
    sources = {path: mutations(np.random.default_rng(place), good[path]) for place, path in enumerate(kept)}
    for path in itertools.islice(itertools.cycle(kept), cases(7 * 20, 7 * 600)):
        kind, data = next(sources[path])
        path.write_bytes(data)
        try:
            with within_seconds():
                same(load_dataset("femnist", [tmp_path]), expected)
        except BaseException as error:
            error.add_note(f"{path.name}: {kind}")
            raise
    measured(f"cache of decoded data: {cases(7 * 20, 7 * 600)} damaged files, each noticed or harmless")


@pytest.mark.parametrize("instead", NO_FILES)
def test_something_else_in_the_cache_is_replaced(tmp_path: Path, instead: str) -> None:
    sample, _ = form("FEMNIST npz")
    lay(tmp_path / "femnist", sample.content(), "")
    expected = load_dataset("femnist", [tmp_path])
    kept = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    for path in kept:
        good = path.read_bytes()
        path.unlink()
        NO_FILES[instead](path, good)
        with within_seconds():
            same(load_dataset("femnist", [tmp_path]), expected)
        assert path.read_bytes() == good


def test_another_number_in_what_is_told_of_the_arrays_is_noticed(tmp_path: Path) -> None:
    """Another mean would scale all pictures otherwise."""
    sample, _ = form("FEMNIST npz")
    lay(tmp_path / "femnist", sample.content(), "")
    expected = load_dataset("femnist", [tmp_path])
    [path] = (tmp_path / "cache").rglob("meta.json")
    good = path.read_text()
    mean = str(expected.mean[0])
    assert good.count(mean) == 1
    path.write_text(good.replace(mean, mean[:-1] + str((int(mean[-1]) + 1) % 10)))
    same(load_dataset("femnist", [tmp_path]), expected)
    assert path.read_text() == good
