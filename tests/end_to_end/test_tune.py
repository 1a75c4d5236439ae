"""Tuning by grid and by Optuna: candidates are chosen on the validation split, the test set is evaluated once."""

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
from airfl.analysis.results.digest import Digest
from airfl.analysis.results.result import Group, Result
from airfl.analysis.results.tuned import ACCURACY, LOSS, TunedRow
from airfl.cli.app import app
from airfl.config import load_rows
from airfl.config.swept_values import Interval, split_intervals, values_only
from airfl.core.summary import Summary
from airfl.errors import UserError
from airfl.report.tuning import plain_tuning, tuned_table
from airfl.study.sweeps.tuning import best, chosen, points_of, rows_to_tune, validation_of
from tests.conftest import DEMO, SMALL
from tests.processes import airfl as airfl_command
from tests.processes import succeeded
from tests.small_data import OF_PEOPLE

GRID = "local.learning_rate=0.001,0.05"
HELD_OUT = ("task.validation_share=0.1", "local.measure=false")


def tune(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return succeeded(airfl_command("tune", DEMO, *SMALL, *OF_PEOPLE, *HELD_OUT, *words))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    """Two schemes with two step sizes, two seeds each, and what the command prints."""
    out = tmp_path_factory.mktemp("tune") / "tuning"
    done = tune(GRID, "--schemes", "pfels,fedavg", "--seeds", "2", "--out", out, "--json")
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


def groups_of_fedavg(folder: Path) -> list[Group]:
    return [group for group in read_results(folder).groups if group.label == "fedavg"]


def test_test_accuracies_have_no_say(tuned: tuple[Path, list[dict]]) -> None:
    def turned(run: Result) -> Result:
        course = {**run.digest.course, "test_accuracy": 1 - run.digest.course["test_accuracy"]}
        summary = replace(run.digest.summary, test_accuracy=1 - run.digest.summary.test_accuracy)
        return replace(run, digest=replace(run.digest, course=course, summary=summary))

    groups = groups_of_fedavg(tuned[0])
    other = best([replace(group, runs=tuple(map(turned, group.runs))) for group in groups], 2)
    assert best(groups, 2).values == other.values


def test_a_group_with_a_seed_missing_is_not_chosen(tuned: tuple[Path, list[dict]]) -> None:
    groups = groups_of_fedavg(tuned[0])
    first = best(groups, 2)
    cut = [replace(group, runs=group.runs[:1]) if group is first else group for group in groups]
    assert best(cut, 2).values != first.values
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


def test_runs_of_other_values_and_seeds_in_the_folder_are_not_chosen_from(tmp_path: Path) -> None:
    """An earlier tuning in the folder tried another key, with a value of the one that is tuned now, and more seeds."""
    out, batches = tmp_path / "t", "local.batch_size=5,10"
    tune("local.learning_rate=1e-6,0.05", "local.batch_size=10", "--schemes", "fedavg", "--seeds", "2", "--out", out)
    words = (batches, "local.learning_rate=1e-6", "--schemes", "fedavg", "--json")
    alone = json.loads(tune(*words, "--out", tmp_path / "alone").stdout)
    assert json.loads(tune(*words, "--out", out).stdout) == alone
    assert alone[0]["tried"] == 2


def test_a_value_at_the_edge_is_told(tmp_path: Path) -> None:
    rates = "local.learning_rate=1e-6,2e-6,0.05"
    done = tune(rates, "scheme.name=fedavg", "--schemes", "fedavg", "--out", tmp_path / "t")
    assert re.search(r"fedavg: local.learning_rate = (1e-06|0.05) is at the edge of the tried range", done.stderr)


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


def _group(label: str, values: dict, score: float, name: str = "accuracy") -> Group:
    """A group of one run of which nothing but these is known."""
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
    found = json.loads(done.stdout)
    assert "--trials 3: all values are drawn at random" in done.stderr
    assert "3 of 3 points, done" in done.stderr
    assert len(list(out.glob("*/trace.h5"))) == found[0]["tried"] == 3
    assert 0.01 <= found[0]["chosen"]["local.learning_rate"] <= 0.3
    assert json.loads(tune(*words).stdout) == found
    assert tomllib.loads((out / "tuned.toml").read_text())["compare"][0]["local.learning_rate"] > 0


PRUNED = (
    *("local.learning_rate=0.5,1e-6", "local.clip_norm=100", "local.steps=4", "run.rounds=4", "run.evaluate_every=1"),
    *("run.seed=3", "--trials", "6", "--prune", "halving", "--schemes", "fedavg"),
)


def test_a_bad_trial_is_pruned_and_its_trace_not_kept(tmp_path: Path) -> None:
    """Of two values that are tried one after the other, with seed 3 the good one first."""
    pytest.importorskip("optuna")
    out = tmp_path / "trials"
    words = (*PRUNED, "--seeds", "2", "--out", out, "--json")
    done = tune(*words)
    (found,) = json.loads(done.stdout)
    assert (found["tried"], found["pruned"], found["chosen"]) == (2, 1, {"local.learning_rate": 0.5})
    assert "1 pruned" in done.stderr
    traces = list(out.glob("*/trace.h5"))
    assert len(traces) == 2  # two seeds of the good one
    for trace_file in traces:
        with airfl.open_trace(trace_file) as trace:
            assert json.loads(trace.attrs["config"])["local"]["learning_rate"] == 0.5
    assert not (out / ".running").exists()


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
