"""A comparison on disk: its tables and figures."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.output import check_can_be_file, replace_text, replacing
from airfl.report import figures, privacy_figure
from airfl.report.table import TableRow, csv_table, markdown_table

if TYPE_CHECKING:
    from airfl.compare import RowResult
    from airfl.report.summary import Summary

TABLES = ("comparison.csv", "comparison.md")
FIGURES = (*figures.FILES, *privacy_figure.FILES)
COPIED = ("comparison.md", "learning.png")


def write_report(results: Sequence[RowResult], out: Path) -> list[Path]:
    """The tables, comparison.csv and comparison.md, and the figures of `write_figures`, of complete runs; returns the
    files. Those of an earlier time are replaced: a comparison can be gone on with."""
    rows = [TableRow(result.label, result.summaries) for result in results]
    tables = [out / name for name in TABLES]
    replace_text(tables[0], csv_table(rows).removesuffix("\n"))
    replace_text(tables[1], markdown_table(rows).removesuffix("\n"))
    for name in FIGURES:
        (out / name).unlink(missing_ok=True)
    complete = [
        (result.label, [folder for folder, run in _runs(result) if run.status == "complete"]) for result in results
    ]
    drawn = [(label, folders) for label, folders in complete if folders]
    return [*tables, *(write_figures(drawn, out) if drawn else [])]


def _runs(result: RowResult) -> list[tuple[Path, Summary]]:
    return list(zip(result.folders, result.summaries, strict=True))


def write_figures(groups: Sequence[tuple[str, Sequence[Path]]], out: Path) -> list[Path]:
    """Learning, and privacy where there is a figure of it, of (label, run folders); returns the files.

    UserError for a folder without a trace, or if one of the files is there already, before any is written.
    """
    figures.check_new_files([out / name for name in FIGURES])
    runs = [(label, [figures.read_rounds(folder) for folder in folders]) for label, folders in groups]
    return [*figures.plot(runs, out), *privacy_figure.plot(runs, out)]


def copy_report(files: Sequence[Path], target: Path) -> list[Path]:
    """Copies of the Markdown table and the learning curves' PNG, replacing those in `target`."""
    check_copies(target)
    target.mkdir(parents=True, exist_ok=True)
    copies = {target / file.name: file for file in files if file.name in COPIED}
    for copy, file in copies.items():
        with replacing(copy) as temporary:
            shutil.copyfile(file, temporary)
    return list(copies)


def check_copies(target: Path) -> None:
    """UserError where they cannot be written there."""
    for name in COPIED:
        check_can_be_file(target / name, "--copy-to")
