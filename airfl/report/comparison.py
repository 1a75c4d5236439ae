"""A comparison on disk: its tables and figures, and finding the runs in it again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from airfl.compare import RowResult
from airfl.errors import UserError
from airfl.output import ROWS_NAME, TRACE_NAME
from airfl.report import figures, privacy_figure
from airfl.report.table import TableRow, csv_table, markdown_table

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


def find_runs(folders: Sequence[Path]) -> list[tuple[str, list[Path]]]:
    """The runs in the given folders, (label, run folders) each: a run by itself, a row's seeds together.

    UserError for a folder that is not there or holds no run.
    """
    groups: dict[str, list[Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder")
        found = _runs_in(folder)
        if not found:
            raise UserError(f"{folder}: holds no run ({TRACE_NAME}), and no folder in it does")
        for label, run in found:
            groups.setdefault(label, []).append(run)
    return list(groups.items())


def _runs_in(folder: Path) -> list[tuple[str, Path]]:
    """(label, run folder) of a run, of a comparison in the order of its rows, or of any folder of runs by name."""
    if (folder / TRACE_NAME).exists():
        return [(folder.name, folder)]
    if (folder / ROWS_NAME).exists():
        rows = _read_rows(folder / ROWS_NAME)
        return [(label, path.parent) for label, row in rows for path in _in_order(row.glob(f"*/{TRACE_NAME}"))]
    return [(path.parent.name, path.parent) for path in _in_order(folder.glob(f"*/{TRACE_NAME}"))]


def _read_rows(path: Path) -> list[tuple[str, Path]]:
    try:
        return [(str(row["label"]), path.parent / str(row["folder"])) for row in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError, KeyError):
        raise UserError(
            f"{path}: not a list of rows as `airfl compare` writes it; name the run folders instead"
        ) from None


def _in_order(paths: Iterable[Path]) -> list[Path]:
    """By name, seed-2 before seed-10."""
    return sorted(paths, key=lambda path: (len(path.parent.name), path.parent.name))
