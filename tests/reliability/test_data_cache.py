"""The cache of decoded data sets: whatever its state, the loaded data equals the content of the original files."""

import itertools
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets import load_dataset
from airfl.learning.tasks.datasets.cache import MARKER_NAME
from airfl.learning.tasks.datasets.raw import RawData
from airfl.storage.cache import TAG_NAME
from tests.reliability.data_outcomes import NO_FILES, lay
from tests.reliability.data_samples import form
from tests.reliability.hangs import within_seconds
from tests.reliability.mutations import mutations
from tests.reliability.refusals import case
from tests.reliability.scale import Measured, cases
from tests.unit.datasets.support import same


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RawData:
    """What is decoded from the files of a data set, and kept."""
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "cache"))
    lay(tmp_path / "femnist", form("FEMNIST npz")[0].content(), "")
    return load_dataset("femnist", [tmp_path])


def kept_files(place: Path) -> list[Path]:
    """What is kept, without the marks of whose it is."""
    files = sorted(path for path in (place / "cache").rglob("*") if path.is_file())
    return [path for path in files if path.name not in (MARKER_NAME, TAG_NAME)]


def test_a_damaged_cache_is_noticed(expected: RawData, tmp_path: Path, measured: Measured) -> None:
    """Whatever happens to a file of the cache, what is loaded is what the data set's own files hold."""
    kept = kept_files(tmp_path)
    assert len(kept) == 7
    good = {path: path.read_bytes() for path in kept}
    sources = {path: mutations(np.random.default_rng(place), good[path], 5 * place) for place, path in enumerate(kept)}
    count = cases(7 * 10, 7 * 600)
    for path in itertools.islice(itertools.cycle(kept), count):
        kind, data = next(sources[path])
        path.write_bytes(data)
        with case(f"{path.name}: {kind}"), within_seconds():
            same(load_dataset("femnist", [tmp_path]), expected)
    measured(f"cache of decoded data: {count} damaged files, each noticed or harmless")


@pytest.mark.parametrize("instead", NO_FILES)
def test_something_else_in_the_cache_does_no_harm(
    expected: RawData, tmp_path: Path, instead: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What is no file of airfl's stays where it is; the data is right all the same."""
    for path in kept_files(tmp_path):
        good = path.read_bytes()
        path.unlink()
        NO_FILES[instead](path, good)
        there = path.lstat() if os.path.lexists(path) else None
        with within_seconds():
            same(load_dataset("femnist", [tmp_path]), expected)
        if there is None or stat.S_ISREG(there.st_mode):
            assert path.read_bytes() == good
        else:  # no file of airfl's, and not removed: the data is decoded each time
            assert path.lstat().st_ino == there.st_ino
            assert "the cache cannot be written" in caplog.text
            caplog.clear()
            shutil.rmtree(path) if stat.S_ISDIR(there.st_mode) else path.unlink()
            path.write_bytes(good)


def test_another_number_in_what_is_told_of_the_arrays_is_noticed(expected: RawData, tmp_path: Path) -> None:
    """Another mean would scale all pictures otherwise."""
    [path] = (tmp_path / "cache").rglob("meta.json")
    good = path.read_text()
    mean = str(expected.mean[0])
    assert good.count(mean) == 1
    path.write_text(good.replace(mean, str(np.nextafter(expected.mean[0], 1))))
    same(load_dataset("femnist", [tmp_path]), expected)
    assert path.read_text() == good
