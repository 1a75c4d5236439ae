"""The rows of a comparison on disk: their folders, and the list of them in OUT/rows.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from airfl.errors import UserError
from airfl.input import LIST_BYTES, read_regular
from airfl.output import ROWS_NAME, check_can_be_folder, check_new, name_of_label, replace_text


def row_folders(labels: Sequence[str]) -> list[str]:
    """A folder name for each label; UserError if two labels give the same."""
    names = [name_of_label(label) or "row" for label in labels]
    for name, label in zip(names, labels, strict=True):
        if names.count(name) > 1:
            raise UserError(f"[[compare]]: the label {label!r} is there twice, or as good as; give each row its own")
    return names


def check_comparison(out: Path, labels: Sequence[str], resume: bool = False) -> None:
    """UserError unless the comparison of these rows can be put into `out`, or be gone on with there."""
    check_can_be_folder(out)
    for name in row_folders(labels):
        check_can_be_folder(out / name)
    if not (out / ROWS_NAME).exists():
        check_new(out)
    elif not resume:
        raise UserError(f"{out}: holds a comparison; go on with it by --resume, or choose another --out")
    elif _there(out / ROWS_NAME) != _listed(labels):
        raise UserError(f"{out}: holds a comparison of other rows; choose another --out")


def _there(path: Path) -> str:
    try:
        return read_regular(path, LIST_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); choose another --out") from None


def write_rows(out: Path, labels: Sequence[str]) -> None:
    """The list."""
    replace_text(out / ROWS_NAME, _listed(labels))


def _listed(labels: Sequence[str]) -> str:
    rows = zip(labels, row_folders(labels), strict=True)
    return json.dumps([{"label": label, "folder": folder} for label, folder in rows])
