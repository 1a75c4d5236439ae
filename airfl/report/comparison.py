"""A comparison on disk: its tables and figures."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.report import figures, privacy_figure
from airfl.report.table import TableRow, csv_table, markdown_table

if TYPE_CHECKING:
    from airfl.compare import RowResult

TABLES = ("comparison.csv", "comparison.md")
COPIED = ("comparison.md", "learning.png")


def write_report(results: Sequence[RowResult], out: Path) -> list[Path]:
    """The tables, comparison.csv and comparison.md, and the figures of `write_figures`; returns the files."""
    rows = [TableRow(result.label, result.summaries) for result in results]
    tables = [out / name for name in TABLES]
    tables[0].write_text(csv_table(rows))
    tables[1].write_text(markdown_table(rows))
    return [*tables, *write_figures([(result.label, result.folders) for result in results], out)]


def write_figures(groups: Sequence[tuple[str, Sequence[Path]]], out: Path) -> list[Path]:
    """Learning, and privacy where there is a figure of it, of (label, run folders); returns the files.

    UserError for a folder without a trace, or if one of the files is there already, before any is written.
    """
    figures.check_new_files([out / name for name in (*figures.FILES, *privacy_figure.FILES)])
    runs = [(label, [figures.read_rounds(folder) for folder in folders]) for label, folders in groups]
    return [*figures.plot(runs, out), *privacy_figure.plot(runs, out)]


def copy_report(files: Sequence[Path], target: Path) -> list[Path]:
    """Copies of the Markdown table and the learning curves' PNG, replacing those in `target`."""
    target.mkdir(parents=True, exist_ok=True)
    wanted = [file for file in files if file.name in COPIED]
    return [Path(shutil.copy(file, target / file.name)) for file in wanted]
