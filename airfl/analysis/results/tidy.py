"""The tidy table of results, with one row per run and one column per figure, as Parquet and CSV."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.config.json_numbers import to_json
from airfl.errors import UserError
from airfl.runtime.text import inert
from airfl.storage.output_files import check_can_be_folder, replacing
from airfl.storage.own_files import check_own_files

if TYPE_CHECKING:
    import pandas as pd

FILES = ("results.parquet", "results.csv")
MARKS = {
    FILES[0]: (b"PAR1", b"resource_elements", b"epsilon_paper"),
    FILES[1]: (b"group,folder,label,", b"resource_elements"),
}
"""Contents that identify a table written by airfl, which airfl may replace."""


def frame(rows: list[dict[str, Any]], axes: Sequence[str]) -> pd.DataFrame:
    """Return the table of these rows; swept values of mixed types become text."""
    import pandas as pd

    table = pd.DataFrame(rows)
    if table.empty:
        return table
    for key in axes:
        known = [value for value in (line[key] for line in rows) if value is not None]
        if {type(value) for value in known} - {int, float} and table[key].dtype == object:
            table[key] = pd.Series([None if line[key] is None else str(line[key]) for line in rows], dtype=object)
    # Sums of bits may exceed 64-bit integers; as floats the columns stay numeric.
    for name in ("uplink_bits", "resource_elements", "gradients"):
        if table[name].dtype == object:
            table[name] = table[name].astype("float64")
    return table


def write(table: pd.DataFrame, out: Path, replace: bool = False) -> list[Path]:
    """Write results.parquet and results.csv to this folder, and return their paths.

    Raises UserError if one exists, or with `replace` if one exists that airfl did not write.
    """
    check_files(out, replace)
    files = [out / name for name in FILES]
    out.mkdir(parents=True, exist_ok=True)
    for file, save in zip(files, (table.to_parquet, for_spreadsheets(table).to_csv), strict=True):
        with replacing(file) as temporary:
            save(temporary, index=False)
    return files


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table for CSV, with all text made inert so that a spreadsheet does not read it as a formula."""
    return table.map(lambda value: inert(value) if isinstance(value, str) else value)


def check_files(out: Path, replace: bool = False) -> None:
    """Raise the UserError that `write` would raise."""
    check_can_be_folder(out)
    for name in FILES:
        if os.path.lexists(out / name) and not replace:
            raise UserError(f"{out / name}: already exists; choose another --out")
    check_own_files(out, MARKS)


def table_value(value: Any) -> Any:
    """Return a setting's value as the table has it: text, a number or JSON."""
    return value if value is None or isinstance(value, str | int | float | bool) else to_json(value)
