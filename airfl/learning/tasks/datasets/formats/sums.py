"""SHA256SUMS: a list of the files in a folder with one `sum  name` per line, as written by sha256sum."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from airfl.errors import UserError
from airfl.learning.tasks.datasets.formats.files import find_all, read_at_most, reading

SUMS = "SHA256SUMS"
LONGEST_LIST = 1 << 16


def check_sums(folder: Path, names: Sequence[str]) -> None:
    """Check that the files in the folder's SHA256SUMS have these sums, and that it lists the files to read.

    names: the files to read, without .gz or .xz. Raises UserError otherwise.
    """
    sums = _sums(folder / SUMS)
    for name, expected in sums.items():
        path = folder / name
        try:
            if not path.is_file():  # reading a pipe would block
                raise UserError(f"{path}: no such file; get it again")
            with open(path, "rb") as content:
                actual = hashlib.file_digest(content, "sha256").hexdigest()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); get the file again") from None
        if actual != expected:
            raise UserError(
                f"{path}: changed or truncated: sha256 must be {expected[:12]}..., got {actual[:12]}...; get the file "
                "again"
            )
    to_read = find_all(folder, names)
    if not to_read:
        raise UserError(f"{folder}: {names[0]} is missing; get the folder again")
    for path in to_read:
        if path.name not in sums:
            raise UserError(f"{path}: not listed in {SUMS}, so it does not belong to this folder; remove it")


def _sums(path: Path) -> dict[str, str]:
    """Return name -> sum; raises UserError unless all lines are sums of files in the same folder."""
    if not path.is_file():
        raise UserError(f"{path}: missing or not a file; get the folder again")
    with reading(path) as file:
        lines = read_at_most(file, LONGEST_LIST).decode("ascii", "replace").splitlines()
    sums = {name: expected for expected, _, name in (line.partition("  ") for line in lines)}
    wrong = [line for line in lines if not re.fullmatch(r"\w+  (?!\.)[\w.-]+", line, re.ASCII)]
    if wrong:
        raise UserError(
            f"{path}: lines must be a sum and a file name of this folder, got {wrong[0][:40]!r}; get the folder again"
        )
    return sums
