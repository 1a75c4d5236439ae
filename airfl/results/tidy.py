"""The tidy table: one line a run, one column a figure; as Parquet and CSV."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.config.json_numbers import to_json
from airfl.errors import UserError
from airfl.output import check_can_be_folder, replacing

if TYPE_CHECKING:
    import pandas as pd

    from airfl.results.collect import Results

FILES = ("results.parquet", "results.csv")


def frame(results: Results) -> pd.DataFrame:
    """One line a run: group, label, link, every swept key, then the figures of `airfl.report.summary.Summary`.

    A swept value that is no number or text (a list, say) stands as JSON. No timings: equal runs give equal tables.
    """
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for group in results.groups:
        for run in group.runs:
            swept = {key: _cell(run.values.get(key)) for key in results.axes}
            lines.append(
                {
                    "group": group.name,
                    "folder": run.folder.name,
                    "label": run.label,
                    "link": run.digest.link,
                    **swept,
                    **asdict(run.digest.summary),
                }
            )
    table = pd.DataFrame(lines)
    if table.empty:
        return table
    for key in results.axes:
        if len({type(value) for value in table[key]} - {int, float}) > 0 and table[key].dtype == object:
            table[key] = table[key].map(str)
    # Sums of bits may pass 64 bits; a table of numbers is read by everything.
    for name in ("uplink_bits", "resource_elements", "gradients"):
        if table[name].dtype == object:
            table[name] = table[name].astype("float64")
    return table


def write(results: Results, out: Path, replace: bool = False) -> list[Path]:
    """results.parquet and results.csv in this folder; UserError if one is there, unless it may be replaced."""
    files = check_tables(out, replace)
    table = frame(results)
    out.mkdir(parents=True, exist_ok=True)
    for file, save in zip(files, (table.to_parquet, table.to_csv), strict=True):
        with replacing(file) as temporary:
            save(temporary, index=False)
    return files


def check_tables(out: Path, replace: bool = False) -> list[Path]:
    """The files; UserError where they cannot be written."""
    check_can_be_folder(out)
    files = [out / name for name in FILES]
    for file in files:
        if file.exists() and not replace:
            raise UserError(f"{file}: is there already; choose another --out")
    return files


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else to_json(value)
