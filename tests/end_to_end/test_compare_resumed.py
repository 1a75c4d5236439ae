"""Comparisons that are interrupted and resumed, and rows that diverge."""

from pathlib import Path
from typing import Any

import pytest

import airfl
from airfl.analysis.results import read_results
from airfl.cli.app import app
from airfl.config import Row
from airfl.core.record import Record
from airfl.errors import DivergedError, UserError
from airfl.report.comparison import write_report
from airfl.report.page import write_page
from airfl.report.paper import draw_figures
from airfl.study.compare import compare
from tests.conftest import DEMO, SMALL, small_settings
from tests.resuming import assert_same_trace
from tests.small_data import OF_PEOPLE

FAST = (*OF_PEOPLE, "run.rounds=3", "run.checkpoint_every=1")
ROWS = [Row(name, small_settings(f"scheme.name={name}", *FAST)) for name in ("pfels", "wfl-p")]
DIVERGES = Row("too far", small_settings("scheme.name=fedavg", "server.learning_rate=1e38", *FAST))


def test_a_comparison_goes_on_where_it_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(what: str, done: int, rounds: int, record: Record) -> None:
        if (what, done) == ("pfels, seed 1", 2):
            raise KeyboardInterrupt

    told: list[tuple[str, int]] = []
    whole, out = tmp_path / "whole", tmp_path / "pieces"
    compare(ROWS, 2, whole)
    with pytest.raises(KeyboardInterrupt):
        compare(ROWS, 2, out, progress=stop)
    with pytest.raises(UserError, match="--resume"):
        compare(ROWS, 2, out)
    with pytest.raises(UserError, match="other rows"):
        compare(ROWS[:1], 2, out, resume=True)
    results = compare(ROWS, 2, out, progress=lambda what, done, *_: told.append((what, done)), resume=True)
    for result in results:
        for folder in result.folders:
            assert_same_trace(folder, whole / folder.relative_to(out))
    assert told[0] == ("pfels, seed 1", 1)
    assert {what for what, _ in told} == {"pfels, seed 1", "wfl-p, seed 0", "wfl-p, seed 1"}
    monkeypatch.setattr("airfl.report.comparison.write_figures", lambda *_: [])  # its table is what is compared
    files = write_report(results, out)
    assert write_report(compare(ROWS, 2, out, resume=True), out) == files
    assert (out / "comparison.csv").read_text() == (
        write_report(compare(ROWS, 2, whole, resume=True), whole)[0].read_text()
    )


def test_a_row_that_diverges_stops_no_other_and_shows_in_the_table(tmp_path: Path) -> None:
    rows = [DIVERGES, ROWS[0]]
    results = compare(rows, 1, tmp_path)
    assert [len(result.failures) for result in results] == [1, 0]
    assert results[0].failures[0].startswith("too far: round 1")
    files = write_report(results, tmp_path)
    table = (tmp_path / "comparison.md").read_text()
    assert "| too far (failed) |" in table
    assert "| pfels |" in table
    assert {file.name for file in files} >= {"learning.png", "comparison.csv"}
    assert compare(rows, 1, tmp_path, resume=True)[0].failures == results[0].failures
    page = write_page([tmp_path], tmp_path / "page.html").read_text()
    assert page.count("too far (failed)") >= 1
    told: list[str] = []
    drawn = draw_figures(read_results(tmp_path), tmp_path / "figures", ["table"], told.append)
    assert drawn, told
    assert any("too-far" in line and "status: failed" in line for line in told)
    statuses = [run.digest.summary.status for run in read_results(tmp_path).runs]
    assert statuses == ["failed", "complete"]


def test_the_command_says_which_rows_failed_and_how(tmp_path: Path, capsys: Any) -> None:
    words = ["compare", str(DEMO), *SMALL, *FAST, "server.learning_rate=1e38", "--schemes", "fedavg,pfels"]
    with pytest.raises(DivergedError, match=r"fedavg: round 1.*; pfels: round 1"):
        app([*words, "--out", str(tmp_path / "out")], standalone_mode=False)
    assert "fedavg (failed)" in capsys.readouterr().out
    with pytest.raises(UserError, match="--resume"):
        app([*words, "--out", str(tmp_path / "out")], standalone_mode=False)


def test_a_sweep_names_the_points_that_diverged(tmp_path: Path) -> None:
    settings = small_settings(*FAST)
    results = airfl.sweep(settings, {"server.learning_rate": [1.0, 1e38]}, out=tmp_path)
    assert len(results.runs) == 1
    (cause,) = results.failed.values()
    assert cause.startswith("round 1")
    assert not (tmp_path / ".running").exists()
