"""A comparison on disk: its tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.output import check_can_be_file, replace_text, replacing
from airfl.own import check_own_files
from airfl.report import figures, privacy_figure
from airfl.report.table import ENERGY_NOTE, TableRow, csv_table, markdown_table

if TYPE_CHECKING:
    from airfl.compare import RowResult
    from airfl.report.summary import Summary

TABLES = ("comparison.csv", "comparison.md")
FIGURES = (*figures.FILES, *privacy_figure.FILES)
COPIED = ("comparison.md", "learning.png")
MARKS: dict[str, tuple[bytes, ...]] = {
    TABLES[0]: (b"label,scheme,seeds,",),
    TABLES[1]: (ENERGY_NOTE.encode(),),
    **{name: (figures.MARK.encode(),) for name in FIGURES},
}
"""What says of a file that airfl has written it, and may replace it."""


def write_report(results: Sequence[RowResult], out: Path) -> list[Path]:
    """The tables, comparison.csv and comparison.md, and the figures of `write_figures`, of complete runs; returns the
    files. Those of an earlier time are replaced: a comparison can be gone on with. UserError, before any is written,
    where something else has the name of one."""
    check_report(out)
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


def check_report(out: Path) -> None:
    """UserError where a file that `write_report` would replace is not one that it has written."""
    check_own_files(out, MARKS)


def _runs(result: RowResult) -> list[tuple[Path, Summary]]:
    return list(zip(result.folders, result.summaries, strict=True))


def write_figures(
    groups: Sequence[tuple[str, Sequence[Path]]], out: Path, left_out: Callable[[str], None] | None = None
) -> list[Path]:
    """Learning, and privacy where there is a figure of it, of (label, run folders); returns the files.

    UserError for a folder without a readable trace, or if one of the files is there already, before any is written.
    left_out(line) is told of each such folder instead, as long as there are others.
    """
    figures.check_new_files([out / name for name in FIGURES])
    runs: list[tuple[str, list[figures.Rounds]]] = []
    unreadable: list[UserError] = []
    for label, folders in groups:
        read = []
        for folder in folders:
            try:
                read.append(figures.read_rounds(folder))
            except UserError as error:
                if left_out is None:
                    raise
                unreadable.append(error)
        if read:
            runs.append((label, read))
    if unreadable and not runs:
        raise unreadable[0]
    for one in unreadable:
        assert left_out is not None
        left_out(str(one))
    return [*figures.plot(runs, out), *privacy_figure.plot(runs, out)]


def check_copies(target: Path) -> None:
    """UserError where a file that `copy_report` would replace is not one of airfl's, or no folder can be there."""
    check_own_files(target, {name: MARKS[name] for name in COPIED})
    for name in COPIED:
        check_can_be_file(target / name, "--copy-to")


def copy_report(files: Sequence[Path], target: Path) -> list[Path]:
    """Copies of the Markdown table and the learning curves' PNG, replacing those in `target`; UserError where these
    are not airfl's."""
    check_copies(target)
    target.mkdir(parents=True, exist_ok=True)
    copies = []
    for file in files:
        if file.name in COPIED:
            with replacing(target / file.name) as temporary:
                temporary.write_bytes(file.read_bytes())
            copies.append(target / file.name)
    return copies
