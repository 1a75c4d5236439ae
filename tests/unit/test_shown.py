"""Labels and paths in output: terminals, spreadsheets, figures and ASCII-only streams."""

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airfl import cli
from airfl.analysis.results import read_results
from airfl.analysis.results.row_result import RowResult
from airfl.analysis.results.tidy import write
from airfl.cli.app import print_table, say
from airfl.core.progress import round_progress
from airfl.core.summary import Summary
from airfl.report.comparison import write_report
from airfl.report.page import write_page
from airfl.report.paper.table import latex, markdown
from airfl.report.table import TableRow, csv_table, markdown_table, terminal_table
from airfl.report.terminal import new_table
from airfl.runtime.text import in_figure, inert, sayable
from tests.conftest import DEMO, SMALL, small_settings
from tests.processes import forked_workers as forked_workers
from tests.small_data import LITTLE, run

LABELS = (
    *("[/]", "[red]x[/red]", ":smile:", "\x1b[31mred\x1b[0m", "a\x07\x08\x9bb\u202e", "$[/]$ $\\foo$"),
    *("_hidden", "[/x", "|<b>"),
)
QUICK = (*LITTLE, "run.rounds=1")


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    done = run(small_settings(*QUICK), tmp_path_factory.mktemp("run") / "out")
    return done.path.parent, done.summary()


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_printed_as_it_stands(label: str, summary: tuple[Path, Summary], capsys: Any) -> None:
    """No markup, no picture, no escape sequence; as title, as cell, as a line of progress, in a sentence."""
    print_table(terminal_table([TableRow(label, [summary[1]])], f"runs/{label}"))
    say(label)
    with round_progress() as progress:
        progress.reporter(label)(1, 1, {"test_accuracy": 0.5})
    out, err = capsys.readouterr()
    shown = sayable(label, "utf-8")
    assert out.count(shown) == 2
    assert err.count(shown) == 2
    assert (out + err).replace("\n", "").isprintable()


def test_labels_are_no_harm_in_the_files_of_a_comparison(summary: tuple[Path, Summary], tmp_path: Path) -> None:
    """Tables and figures, of a row each: what figures would choke on; of all labels the tests below."""
    folder, found = summary
    choking = [label for label in LABELS if label.startswith(("a\x07", "$", "_"))]
    assert len(choking) == 3
    files = write_report([RowResult(label, (folder,), (found,)) for label in choking], tmp_path)
    assert {"comparison.csv", "comparison.md", "learning.png"} <= {file.name for file in files}
    for file in files[:2]:
        assert file.read_text(encoding="utf-8").replace("\n", "").isprintable()


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_no_harm_in_a_table_or_a_figure(label: str, summary: tuple[Path, Summary]) -> None:
    """Nor in the papers' tables."""
    text = markdown_table([TableRow(label, [summary[1]])])
    assert "| <" not in text
    assert len({line.replace("\\|", "").count("|") for line in text.splitlines()[:3]}) == 1
    for text in (markdown([[label, "1"]], label), latex([[label, "1"]], label)):
        assert text.replace("\n", "").isprintable()
    assert in_figure(label).isprintable()
    assert not in_figure(label).startswith("_")


FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "a;=1", "a; =1", "=cmd|' /C calc'!A0", "＝1")
FORMULAS = (*FORMULAS, "-3+3+cmd|x")
NUMBERS = ("-5", "+3.5", "-inf", "1e-3", "-", "a-b", "x = 3", "ratio=0.1", "SNR -5 dB", "")


def test_no_text_is_a_formula_and_numbers_and_other_text_stay_as_they_are() -> None:
    for text in FORMULAS:
        (cells,) = csv.reader(io.StringIO(inert(text)), delimiter=";")
        assert all(cell.strip()[0] not in "=+-@\uff1d" for cell in cells), text
        assert inert(text).isprintable(), text
    assert tuple(map(inert, NUMBERS)) == NUMBERS


def test_tables_that_spreadsheets_open(summary: tuple[Path, Summary], tmp_path: Path) -> None:
    _, found = summary
    (_, row) = csv.reader(io.StringIO(csv_table([TableRow("=1+1", [replace(found, epsilon=-0.5)])])))
    assert row[0] == "'=1+1"
    assert "-0.5" in row
    folder = tmp_path / "=2+2" / "=3+3"
    run(small_settings(*QUICK), folder)
    pandas = pytest.importorskip("pandas")
    files = write(read_results([tmp_path / "=2+2"]).frame(), tmp_path / "out")
    assert set(pandas.read_csv(files[1])["folder"]) == {"'=3+3"}
    assert set(pandas.read_parquet(files[0])["folder"]) == {"=3+3"}  # no spreadsheet computes what is in it
    page = write_page([tmp_path / "=2+2"], tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">=3+3<" not in page.partition("<nav")[2].partition("<script")[0]


def test_ascii_has_words_for_our_signs() -> None:
    assert sayable("ε ± 0.1, δ ≤ 2 × σ²", "ascii") == "epsilon +- 0.1, delta <= 2 x sigma^2"
    assert sayable("café \udcff", "ascii") == "caf\\xe9 \\udcff"
    assert sayable("ε", "utf-8") == "ε"
    assert sayable("a\nb\x1b", "no-such-encoding") == "a\nb\\x1b"


class Ascii(io.TextIOWrapper):
    """A stream as PYTHONIOENCODING=ascii makes it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="ascii", errors="strict")

    def told(self) -> str:
        """So far."""
        self.flush()
        return self.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]


def command(monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[int, str, str]:
    """`airfl WORDS` with streams that know ASCII alone: exit code, and what they were told."""
    out, err = Ascii(), Ascii()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(sys, "argv", ["airfl", *map(str, words)])
        patch.setattr(cli, "_handle_signals", lambda handler: None)
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, out.told(), err.told()


def test_commands_where_only_ascii_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose name is markup, and a label too: every command comes to its end and has written its files."""
    place = tmp_path / "é[/]"
    rows = tmp_path / "rows.toml"
    labelled = '[[compare]]\nlabel = "[/] ε =1"\n[[compare]]\nlabel = "\\u001b[31m"\nscheme.name = "fedavg"\n'
    rows.write_text(DEMO.read_text().partition("[[compare]]")[0] + labelled, encoding="utf-8")
    one, two = place / "one", place / "two"
    small = (*SMALL, *QUICK)
    for words in (
        ("run", DEMO, *small, "--out", one),
        ("compare", rows, *small, "--out", two, "--copy-to", place / "copied"),
        ("results", two, "--out", place / "tables"),
        ("privacy", DEMO, *small),
        ("budget", DEMO, *small),
        ("export", one, "--to", "csv", "--out", place / "csv"),
        ("figures", two, "--only", "table", "--out", place / "figures"),
    ):
        code, out, err = command(monkeypatch, *words)
        assert code == 0, err
        assert (out + err).replace("\n", "").isprintable(), words
        assert "Traceback" not in err
    written = ("one/trace.h5", "two/comparison.csv", "two/learning.pdf", "copied/comparison.md")
    for file in (*written, "tables/results.parquet", "csv/rounds.csv", "figures/table.tex"):
        assert (place / file).stat().st_size, file
    code, out, err = command(monkeypatch, "results", two, "--json")
    assert code == 0
    assert [group["name"] for group in json.loads(out)["groups"]] == ["[/] ε =1", "\x1b[31m"]


def test_a_stream_that_is_closed_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    say("unheard")
    with round_progress() as progress:
        progress.reporter("unheard")(1, 1, {"test_accuracy": 0.5})


@pytest.mark.usefixtures("forked_workers")
def test_a_sweep_is_shown_where_its_files_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command writes them later, in ASCII too."""
    from airfl.analysis.results import tidy

    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    folder = tmp_path / "é[/]"
    words = ("sweep", DEMO, *SMALL, *QUICK, "--out", folder)
    with monkeypatch.context() as patch:
        patch.setattr(tidy, "write", full)
        code, out, err = command(monkeypatch, *words)
    assert code == 1
    assert "accuracy" in out
    assert "No space left" in err
    code, out, err = command(monkeypatch, *words)
    assert code == 0
    assert (out + err).replace("\n", "").isprintable()
    assert (folder / "results.csv").stat().st_size


def test_a_title_without_text(capsys: Any) -> None:
    table = new_table("")
    table.add_column("a")
    table.add_row("[b]")
    print_table(table)
    assert "[b]" in capsys.readouterr().out
