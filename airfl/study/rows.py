"""The rows of a comparison on disk: a folder for each, and their list in OUT/rows.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airfl.errors import UserError
from airfl.storage.input_files import LIST_BYTES, read_regular
from airfl.storage.lock import locked
from airfl.storage.output_files import (
    LOCK_NAME,
    OF_A_RUN,
    OF_A_SWEEP,
    ROWS_NAME,
    check_can_be_folder,
    check_new,
    check_nothing_of,
    name_of_label,
    replace_text,
)
from airfl.storage.own_files import check_no_link
from airfl.storage.shards import check_no_shards


def row_folders(labels: Sequence[str]) -> list[str]:
    """Return a folder name for each label; UserError if two labels give the same name."""
    names = [name_of_label(label) or "row" for label in labels]
    for name, label in zip(names, labels, strict=True):
        if names.count(name) > 1:
            raise UserError(f"[[compare]]: the label {label!r} is not unique as a folder name; give each row its own")
    return names


def check_comparison(out: Path, labels: Sequence[str], resume: bool = False) -> None:
    """Raise UserError unless the comparison of these rows can be started, or resumed, in `out`."""
    check_no_link(out / ROWS_NAME)
    check_can_be_folder(out)
    for name in row_folders(labels):
        check_can_be_folder(out / name)
    if not (out / ROWS_NAME).exists():
        check_new(out, ROWS_NAME)
        return
    check_nothing_of(out, (*OF_A_SWEEP, *OF_A_RUN))
    if not resume:
        raise UserError(f"{out}: contains a comparison; resume it with --resume, or choose another --out")
    if _read(out / ROWS_NAME) != _listed(labels):
        raise UserError(f"{out}: contains a comparison of other rows; choose another --out")


@contextmanager
def exclusive(out: Path, labels: Sequence[str], resume: bool) -> Iterator[None]:
    """Lock `out` for this process during the block; UserError if another process is writing there."""
    lock = out / LOCK_NAME
    with locked(lock, f"{out}: another process is writing into it; wait for it, or choose another --out"):
        try:
            # Checked again under the lock: a process that uses the folder for something else checks for this lock
            # after it has taken its own.
            check_comparison(out, labels, resume)
            check_no_shards(out)
            yield
        finally:
            lock.unlink(missing_ok=True)


def write_rows(out: Path, labels: Sequence[str]) -> None:
    """Write the list of rows."""
    replace_text(out / ROWS_NAME, _listed(labels))


def _read(path: Path) -> str:
    try:
        return read_regular(path, LIST_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); choose another --out") from None


def _listed(labels: Sequence[str]) -> str:
    rows = zip(labels, row_folders(labels), strict=True)
    return json.dumps([{"label": label, "folder": folder} for label, folder in rows])
