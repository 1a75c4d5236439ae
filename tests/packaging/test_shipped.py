"""Configurations by name give the same settings as by path, and files on disk take precedence."""

import os
from functools import partial
from pathlib import Path

import pytest

import airfl
from airfl.config import load_rows
from airfl.storage.resources import configurations, configurations_folder, title
from airfl.study.sweeps.points import SweepPlan, build_points
from airfl.study.sweeps.tuning import rows_to_tune
from tests.conftest import ROOT
from tests.reliability.refusals import refusal

CONFIGS = ROOT / "experiments" / "configs"


def test_a_checkout_has_one_copy_of_everything() -> None:
    """The data and configurations at its top are what is used."""
    assert airfl.data_folder() == ROOT / "data"
    assert (airfl.data_folder() / "street-canyon" / "channel.h5").is_file()
    assert configurations_folder() == CONFIGS
    assert sorted(configurations().values()) == sorted(CONFIGS.rglob("*.toml"))
    assert not list((ROOT / "airfl").rglob("*.toml"))


@pytest.mark.parametrize("name", ["demo", "all-schemes", "pfels-cifar10", "papers/pfels-cifar10"])
def test_a_name_stands_for_its_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (file,) = CONFIGS.rglob(f"{Path(name).name}.toml")
    changes = ["run.rounds=3"]
    assert airfl.load_settings(name, changes) == airfl.load_settings(file, changes)
    rows = [(row.label, row.settings) for row in load_rows(name, changes)]
    assert rows == [(row.label, row.settings) for row in load_rows(file, changes)]
    assert [row.label for row in rows_to_tune(name)] == [label for label, _ in rows]


def test_a_sweeps_points_are_the_same_by_name_and_by_path() -> None:
    """Their folders are what a sweep goes on by."""
    plan = SweepPlan({"scheme.ratio": [0.1, 0.3]}, seeds=2)
    by_name, by_path = (build_points(config, [], plan) for config in ("demo", CONFIGS / "demo.toml"))
    assert [point.folder for point in by_name] == [point.folder for point in by_path]


def test_a_file_of_that_name_comes_first_and_a_folder_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = airfl.load_settings("demo")
    Path("demo").mkdir()  # an --out DIR, say
    assert airfl.load_settings("demo") == shipped
    Path("demo").rmdir()
    Path("demo").write_text((CONFIGS / "demo.toml").read_text().replace("rounds = 150", "rounds = 7"))
    assert airfl.load_settings("demo").run.rounds == 7 != shipped.run.rounds


@pytest.mark.parametrize("given", ["dem", "demo.toml", "papers/demo", "pfels", "a\0b"])
def test_what_is_neither_is_told_what_there_is(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = refusal(lambda: airfl.load_settings(given), r"no such settings file.*\(all-schemes, demo, ")
    assert "did you mean demo?" in line or not given.startswith("dem")


def test_what_is_there_and_cannot_be_read_is_told_so(tmp_path: Path) -> None:
    for given in (str(tmp_path), "a" * 5000 + os.sep):
        refusal(partial(airfl.load_settings, given), "cannot be read")


def test_every_configuration_says_what_it_is_in_its_first_line() -> None:
    for name, file in configurations().items():
        first = file.read_text().splitlines()[0]
        assert first == f"# {title(file)}"
        assert 20 <= len(title(file)) <= 100, name
        assert first.endswith("."), name
