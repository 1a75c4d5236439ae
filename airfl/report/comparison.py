"""The files of a comparison: its tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.report import figures, privacy_figure
from airfl.report.table import ENERGY_NOTE, TableRow, csv_table, markdown_table
from airfl.storage.output_files import check_can_be_file, replace_text, replacing
from airfl.storage.own_files import check_own_files

if TYPE_CHECKING:
    from airfl.analysis.results.row_result import RowResult
    from airfl.core.summary import Summary
    from airfl.runtime.notebook.style import Style

TABLES = ("comparison.csv", "comparison.md")
FIGURES = (*figures.FILES, *privacy_figure.FILES)
COPIED = ("comparison.md", "learning.png")
MARKS: dict[str, tuple[bytes, ...]] = {
    TABLES[0]: (b"label,scheme,seeds,",),
    TABLES[1]: (ENERGY_NOTE.encode(),),
    **{name: (figures.MARK.encode(),) for name in FIGURES},
}
"""File name -> how a file that airfl has written begins, or what it contains; only such files are overwritten."""


def write_report(results: Sequence[RowResult], out: Path) -> list[Path]:
    """Write the tables, comparison.csv and comparison.md, and the figures of the complete runs; return the files.

    Earlier files of the comparison are overwritten, since a comparison can be resumed. Raises UserError, before
    anything is written, if another file has the name of one of them.
    """
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
    """Raise UserError if a file that `write_report` would overwrite was not written by it."""
    check_own_files(out, MARKS)


def _runs(result: RowResult) -> list[tuple[Path, Summary]]:
    return list(zip(result.folders, result.summaries, strict=True))


def write_figures(
    groups: Sequence[tuple[str, Sequence[Path]]],
    out: Path,
    left_out: Callable[[str], None] | None = None,
    style: Style | None = None,
) -> list[Path]:
    """Write the figures of learning and, if any epsilon is finite, of privacy; return the files.

    Args:
        groups: (label, run folders) of each line.
        out: The output folder.
        left_out: Called with a message for each folder without a readable trace or an evaluated round, as long as there
            are other folders.
        style: "ieee" for figures of IEEE papers; None for the current style of Matplotlib.

    Raises UserError, before anything is written, if one of the files exists or, without `left_out`, if a folder has no
    readable trace or no evaluated round.
    """
    figures.check_new_files([out / name for name in FIGURES])
    runs: list[tuple[str, list[figures.RecordedRounds]]] = []
    unreadable: list[UserError] = []
    for label, folders in groups:
        read = []
        for folder in folders:
            try:
                rounds = figures.read_rounds(folder)
                rounds.check_evaluated()
                read.append(rounds)
            except UserError as error:
                if left_out is None:
                    raise
                unreadable.append(error)
        if read:
            runs.append((label, read))
    if unreadable and not runs:
        raise unreadable[0]
    for message in map(str, unreadable):
        assert left_out is not None
        left_out(message)
    return [*figures.plot(runs, out, style), *privacy_figure.plot(runs, out, style)]


def check_copies(target: Path) -> None:
    """Raise UserError if `copy_report` would overwrite a file not written by airfl, or cannot create the folder."""
    check_own_files(target, {name: MARKS[name] for name in COPIED})
    for name in COPIED:
        check_can_be_file(target / name, "--copy-to")


def copy_report(files: Sequence[Path], target: Path) -> list[Path]:
    """Copy the Markdown table and the PNG of the learning curves to `target`, and return the copies.

    Existing copies are overwritten. Raises UserError if these were not written by airfl.
    """
    check_copies(target)
    target.mkdir(parents=True, exist_ok=True)
    copies = []
    for file in files:
        if file.name in COPIED:
            with replacing(target / file.name) as temporary:
                temporary.write_bytes(file.read_bytes())
            copies.append(target / file.name)
    return copies
