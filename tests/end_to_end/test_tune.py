"""Tuning by grid and by Optuna: candidates are selected on the validation split only, and the test set is evaluated
once."""

from __future__ import annotations

import json
import math
import re
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import airfl
from airfl.analysis.results import read_results
from airfl.analysis.results.result import Group
from airfl.analysis.results.tuned import ACCURACY, LOSS, TunedRow
from airfl.cli.app import app
from airfl.config import load_rows
from airfl.config.swept_values import Interval, split_intervals, values_only
from airfl.errors import UserError
from airfl.report.tuning import plain_tuning, tuned_table
from airfl.study.sweeps.search import tune_by_trials
from airfl.study.sweeps.tuning import best, chosen, points_of, rows_to_tune, validation_of
from tests.conftest import DEMO, SMALL
from tests.processes import airfl as airfl_command
from tests.small_data import OF_PEOPLE

GRID = "local.learning_rate=0.001,0.05"
HELD_OUT = ("task.validation_share=0.1", "local.measure=false")


def tune(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return airfl_command("tune", DEMO, *SMALL, *OF_PEOPLE, *HELD_OUT, *words)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    """Two schemes with two step sizes, two seeds each, and what the command prints."""
    out = tmp_path_factory.mktemp("tune") / "tuning"
    done = tune(GRID, "--schemes", "pfels,fedavg", "--seeds", "2", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_the_best_validation_accuracy_is_chosen_for_each_scheme(tuned: tuple[Path, list[dict]]) -> None:
    """Read from the traces by hand."""
    out, found = tuned
    runs: dict[tuple, list] = {}
    for trace_file in out.glob("*/trace.h5"):
        with airfl.open_trace(trace_file) as trace:
            settings = json.loads(trace.attrs["config"])
            at = (settings["scheme"]["name"], settings["local"]["learning_rate"])
            runs.setdefault(at, []).append([float(trace[f"{part}_accuracy"][-1]) for part in ("validation", "test")])
    assert len(runs) == 4
    for row in found:
        own = {at: np.mean(values, axis=0) for at, values in runs.items() if at[0] == row["label"]}
        chosen = (row["label"], row["chosen"]["local.learning_rate"])
        assert own[chosen][0] == max(value[0] for value in own.values())
        assert row["validation_accuracy"]["mean"] == pytest.approx(own[chosen][0])
        assert row["test_accuracy"]["mean"] == pytest.approx(own[chosen][1])
        assert row["tried"] == 2


def test_test_accuracies_have_no_say(tuned: tuple[Path, list[dict]]) -> None:
    out, _ = tuned
    groups = [group for group in read_results(out).groups if group.label == "fedavg"]
    chosen = best(groups, 2)
    turned = []
    for group in groups:
        runs = []
        for run in group.runs:
            course = {**run.digest.course, "test_accuracy": 1 - run.digest.course["test_accuracy"]}
            summary = replace(run.digest.summary, test_accuracy=1 - run.digest.summary.test_accuracy)
            runs.append(replace(run, digest=replace(run.digest, course=course, summary=summary)))
        turned.append(replace(group, runs=tuple(runs)))
    other = best(turned, 2)
    assert chosen is not None
    assert other is not None
    assert chosen.values == other.values


def test_a_group_with_a_seed_missing_is_not_chosen(tuned: tuple[Path, list[dict]]) -> None:
    groups = [group for group in read_results(tuned[0]).groups if group.label == "fedavg"]
    first = best(groups, 2)
    assert first is not None
    cut = [replace(group, runs=group.runs[:1]) if group is first else group for group in groups]
    second = best(cut, 2)
    assert second is not None
    assert second.values != first.values
    assert best([replace(group, runs=group.runs[:1]) for group in groups], 2) is None


def test_the_file_it_writes_compares_the_schemes_as_chosen_and_says_so(
    tuned: tuple[Path, list[dict]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, found = tuned
    rows = load_rows(out / "tuned.toml")
    assert [row.label for row in rows] == ["pfels", "fedavg"]
    for row, one in zip(rows, found, strict=True):
        assert row.settings.scheme.name == one["label"]
        assert row.settings.local.learning_rate == one["chosen"]["local.learning_rate"]
        assert row.settings.run.tuned
    tables = {}
    monkeypatch.setattr("airfl.report.comparison.write_figures", lambda *_: [])  # it is the table that says so
    untuned = [DEMO, *SMALL, *OF_PEOPLE, "--schemes", "pfels,fedavg"]
    for name, words in (("tuned", [out / "tuned.toml"]), ("untuned", untuned)):
        app([*map(str, ("compare", *words, "--out", tmp_path / name))], standalone_mode=False)
        tables[name] = (tmp_path / name / "comparison.md").read_text()
    assert "Not tuned" in tables["untuned"]
    assert "Not tuned" not in tables["tuned"]


def test_the_same_command_again_runs_nothing_and_chooses_the_same(tuned: tuple[Path, list[dict]]) -> None:
    out, found = tuned
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/trace.h5")}
    done = tune(GRID, "--schemes", "pfels,fedavg", "--seeds", "2", "--out", out, "--json")
    assert json.loads(done.stdout) == found
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/trace.h5")} == before


def test_a_value_at_the_edge_is_told(tmp_path: Path) -> None:
    rates = "local.learning_rate=1e-6,2e-6,0.05"
    done = tune(rates, "scheme.name=fedavg", "--schemes", "fedavg", "--out", tmp_path / "t")
    assert done.returncode == 0, done.stderr
    assert re.search(r"fedavg: local.learning_rate = (1e-06|0.05) is at the edge of the tried range", done.stderr)


def test_optuna_finds_what_a_score_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A score that peaks at a learning rate of 0.02: no run, the search alone. The same seed proposes the same."""
    pytest.importorskip("optuna")
    rows = rows_to_tune(DEMO, ["pfels"])
    axes = {"local.learning_rate": Interval(1e-4, 1.0, log=True), "local.clip_norm": [0.5, 1.0]}

    def search() -> tuple:
        groups: dict[str, object] = {}

        def run(points: list) -> list:
            for point in points:
                rate, clip = point.values["local.learning_rate"], point.values["local.clip_norm"]
                score = -abs(np.log10(rate / 0.02)) - 0.3 * (clip == 0.5)
                groups[point.folder] = _group(point.label, dict(point.values), score)
            return list(groups.values())

        found = tune_by_trials(DEMO, HELD_OUT, rows, axes, 1, run, trials=40, seed=3)
        return found[0].values, len(groups), found[0].validation.mean

    values, tried, score = search()
    assert 0.01 < values["local.learning_rate"] < 0.04
    assert values["local.clip_norm"] == 1.0
    assert tried == 40
    assert score > -0.3
    assert search() == (values, tried, score)


def test_of_a_loss_the_lowest_is_chosen_the_first_of_equals_and_none_that_is_nan() -> None:
    """By grid and by search; accuracies, which are nan then, have no say."""
    scores = [math.nan, 2.0, -1.0, 0.5, -1.0, math.inf]
    groups = [_group("", {"a.b": index}, score, "loss") for index, score in enumerate(scores)]
    assert best(groups, 1, LOSS) is groups[2]
    assert best(groups[:1], 1, LOSS) is None
    found = chosen(TunedRow("", {}), groups, {"a.b": list(range(6))}, 1, LOSS)
    assert (found.values, found.validation.mean, found.test.mean, found.by) == ({"a.b": 2}, -1.0, 1.0, LOSS)
    assert {"validation_loss", "test_loss"} < plain_tuning([found])[0].keys()
    table = tuned_table([found], "t")
    assert "Selected by lowest validation loss; test loss of the selected values only." in str(table.caption)
    assert [next(iter(column.cells)) for column in table.columns][-2:] == ["-1", "1"]


def test_optuna_finds_the_least_loss() -> None:
    pytest.importorskip("optuna")
    rows = rows_to_tune(DEMO, ["pfels"])
    axes = {"local.learning_rate": Interval(1e-4, 1.0, log=True)}
    kept: dict[str, object] = {}

    def run(points: list) -> list:
        for point in points:
            rate = point.values["local.learning_rate"]
            kept[point.folder] = _group(point.label, dict(point.values), abs(np.log10(rate / 0.02)), "loss")
        return list(kept.values())

    found = tune_by_trials(DEMO, HELD_OUT, rows, axes, 1, run, trials=16, seed=3, by=LOSS)
    assert 0.005 < found[0].values["local.learning_rate"] < 0.08


def _group(label: str, values: dict, score: float, name: str = "accuracy") -> Group:
    """A group of one run of which nothing but these is known."""
    from airfl.analysis.results.digest import Digest
    from airfl.analysis.results.result import Result
    from airfl.core.summary import Summary

    summary = Summary("pfels", 0, "complete", 1, 0.5, 1.0, 1.0, 1, 1.0, 0, 1e-3, 1.0, 1.0, 1.0, 1.0)
    course = {"validation_accuracy": np.array([np.nan])} | {f"validation_{name}": np.array([score])}
    digest = Digest(summary=summary, course=course, link="analog", settings={}, dimension=1)
    result = Result(Path(), label, values, 0, digest)
    by = LOSS if name == "loss" else ACCURACY
    assert validation_of(Group("", label, values, (result,)), by).mean == pytest.approx(score, nan_ok=True)
    return Group("", label, values, (result,))


def test_optuna_trials_run(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    out = tmp_path / "trials"
    words = ("local.learning_rate=0.01:0.3:log", "--schemes", "fedavg", "--trials", "3", "--out", out, "--json")
    done = tune(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(list(out.glob("*/trace.h5"))) == found[0]["tried"] == 3
    assert 0.01 <= found[0]["chosen"]["local.learning_rate"] <= 0.3
    assert json.loads(tune(*words).stdout) == found
    assert tomllib.loads((out / "tuned.toml").read_text())["compare"][0]["local.learning_rate"] > 0


def test_intervals_apart_from_values() -> None:
    rest, found = split_intervals(["a.b=1:2:log", "c.d=1:2:1", "e.f=0:1:linear"])
    assert rest == ["c.d=1:2:1"]
    assert found == {"a.b": Interval(1.0, 2.0, True), "e.f": Interval(0.0, 1.0, False)}
    with pytest.raises(UserError, match="cannot be tried in full"):
        values_only(found)


def test_points_carry_the_rows_label_and_the_tried_values_alone() -> None:
    rows = rows_to_tune(DEMO)
    tried = {row.label: [{"local.learning_rate": 0.1}, {"local.learning_rate": 0.2}] for row in rows}
    points = points_of(DEMO, HELD_OUT, rows, tried, 1)
    assert len(points) == 12
    assert {tuple(point.values) for point in points} == {("local.learning_rate",)}
    assert points[4].label == "PFELS, p = 0.3"
    assert points[11].settings.server.learning_rate == 0.3
