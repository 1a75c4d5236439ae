"""The tidy table: one line a run, one column a figure; as Parquet and CSV."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.config.json_numbers import to_json
from airfl.errors import UserError
from airfl.output import check_can_be_folder, replacing
from airfl.own import check_own_files
from airfl.shown import inert

if TYPE_CHECKING:
    import pandas as pd

    from airfl.results.collect import Results

FILES = ("results.parquet", "results.csv")
MARKS = {
    FILES[0]: (b"PAR1", b"resource_elements", b"epsilon_paper"),
    FILES[1]: (b"group,folder,label,", b"resource_elements"),
}
"""The columns by which a table is known as airfl's, which may replace it."""


def frame(results: Results) -> pd.DataFrame:
    """One line a run: group, label, link, every swept key, then the figures of `airfl.report.summary.Summary` and the
    metrics of an own task.

    A swept value that is no number or text (a list, say) stands as JSON, one that the run's scheme does not have is
    empty. No timings: equal runs give equal tables.
    """
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for group in results.groups:
        for run in (*group.runs, *group.repeats):
            swept = {key: _cell(run.values.get(key)) for key in results.axes}
            lines.append(
                {
                    "group": group.name,
                    "folder": run.folder.name,
                    "label": run.label,
                    "link": run.digest.link,
                    **swept,
                    **asdict(run.digest.summary),
                    **run.digest.metrics,
                }
            )
    table = pd.DataFrame(lines)
    if table.empty:
        return table
    for key in results.axes:
        known = [value for value in (line[key] for line in lines) if value is not None]
        if {type(value) for value in known} - {int, float} and table[key].dtype == object:
            table[key] = pd.Series([None if line[key] is None else str(line[key]) for line in lines], dtype=object)
    # Sums of bits may pass 64 bits; a table of numbers is read by everything.
    for name in ("uplink_bits", "resource_elements", "gradients"):
        if table[name].dtype == object:
            table[name] = table[name].astype("float64")
    return table


def write(results: Results, out: Path, replace: bool = False) -> list[Path]:
    """results.parquet and results.csv in this folder; UserError if one is there, unless it may be replaced: then if it
    is another table than airfl's."""
    check_files(out, replace)
    files = [out / name for name in FILES]
    table = frame(results)
    out.mkdir(parents=True, exist_ok=True)
    for file, save in zip(files, (table.to_parquet, for_spreadsheets(table).to_csv), strict=True):
        with replacing(file) as temporary:
            save(temporary, index=False)
    return files


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """The table as CSV has it: no label, and no other text, is a formula in a spreadsheet."""
    return table.map(lambda value: inert(value) if isinstance(value, str) else value)


def check_files(out: Path, replace: bool = False) -> None:
    """UserError where `write` would raise it."""
    check_can_be_folder(out)
    for name in FILES:
        if os.path.lexists(out / name) and not replace:
            raise UserError(f"{out / name}: is there already; choose another --out")
    check_own_files(out, MARKS)


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else to_json(value)
