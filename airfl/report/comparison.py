"""A comparison on disk: its tables and figures, and finding the runs in it again."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from airfl.compare import RowResult
from airfl.errors import UserError
from airfl.output import TRACE_NAME
from airfl.report.figures import plot
from airfl.report.table import TableRow, csv_table, markdown_table

LABEL = "label.txt"


def write_report(results: Sequence[RowResult], out: Path) -> list[Path]:
    """out/comparison.csv, comparison.md, learning.png, learning.pdf; returns the files."""
    rows = [TableRow(result.label, result.summaries) for result in results]
    for result in results:
        (result.folders[0].parent / LABEL).write_text(result.label + "\n")
    tables = [out / "comparison.csv", out / "comparison.md"]
    tables[0].write_text(csv_table(rows))
    tables[1].write_text(markdown_table(rows))
    return [*tables, *plot([(result.label, result.folders) for result in results], out)]


def copy_report(files: Sequence[Path], target: Path) -> list[Path]:
    """Copies of the Markdown table and the PNG, replacing those in `target`."""
    target.mkdir(parents=True, exist_ok=True)
    wanted = [file for file in files if file.suffix in (".md", ".png")]
    return [Path(shutil.copy(file, target / file.name)) for file in wanted]


def find_runs(folders: Sequence[Path]) -> list[tuple[str, list[Path]]]:
    """The runs in the given folders, (label, run folders) each: a run by itself, a row's seeds together.

    UserError for a folder that is not there or holds no run.
    """
    groups: dict[str, list[Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder")
        found = (
            [folder]
            if (folder / TRACE_NAME).exists()
            else _in_order(path.parent for path in folder.glob(f"*/*/{TRACE_NAME}"))
        )
        found = found or _in_order(path.parent for path in folder.glob(f"*/{TRACE_NAME}"))
        if not found:
            raise UserError(f"{folder}: holds no run ({TRACE_NAME}), and no folder in it does")
        for run in found:
            groups.setdefault(_label(run), []).append(run)
    return list(groups.items())


def _in_order(folders: object) -> list[Path]:
    """Oldest first: the order in which a comparison made them."""
    return sorted(folders, key=lambda folder: ((folder / TRACE_NAME).stat().st_mtime_ns, folder))  # type: ignore[call-overload, no-any-return]


def _label(run: Path) -> str:
    written = run.parent / LABEL
    return written.read_text().strip() if written.exists() else run.name
