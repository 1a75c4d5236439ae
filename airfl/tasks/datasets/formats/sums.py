"""SHA256SUMS: a list of files in a folder, `sum  name` a line, as sha256sum writes it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from airfl.errors import UserError
from airfl.tasks.datasets.formats.files import find_all, read_at_most, reading

SUMS = "SHA256SUMS"
LONGEST_LIST = 1 << 16


def check_sums(folder: Path, names: Sequence[str]) -> None:
    """UserError unless the files named in the folder's SHA256SUMS have their sums, those that are read among them.

    names: what is read, without .gz or .xz.
    """
    sums = _sums(folder / SUMS)
    for name, expected in sums.items():
        path = folder / name
        try:
            if not path.is_file():  # a pipe is waited for without end
                raise UserError(f"{path}: there is no such file; get it again")
            with open(path, "rb") as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); get the file again") from None
        if found != expected:
            raise UserError(
                f"{path}: wrong or cut off: sha256 {found[:12]}..., wanted {expected[:12]}...; get the file again"
            )
    read = find_all(folder, names)
    if not read:
        raise UserError(f"{folder}: {names[0]} is missing; get the folder again")
    for path in read:
        if path.name not in sums:
            raise UserError(f"{path}: {SUMS} does not name it, so it is not of this folder; remove it")


def _sums(path: Path) -> dict[str, str]:
    """Name -> sum; UserError for a list that is not one of files of its own folder."""
    if not path.is_file():
        raise UserError(f"{path}: missing or not readable; get the folder again")
    with reading(path) as file:
        lines = read_at_most(file, LONGEST_LIST).decode("ascii", "replace").splitlines()
    sums = {name: expected for expected, _, name in (line.partition("  ") for line in lines)}
    strange = [line for line in lines if not re.fullmatch(r"\w+  (?!\.)[\w.-]+", line, re.ASCII)]
    if strange:
        raise UserError(f"{path}: {strange[0][:40]!r} is not a sum and a name of this folder; get the folder again")
    return sums
