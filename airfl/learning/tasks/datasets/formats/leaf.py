"""LEAF's JSON layout (Caldas et al. 2018): users, num_samples, user_data -> {user: {x, y}}."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airfl.errors import UserError
from airfl.learning.tasks.datasets.formats.files import OPENERS, read_at_most, reading

# A LEAF file contains a hundred users, about 200 MB of text.
LARGEST_FILE = 2 << 30
# Compression shrinks FEMNIST's files 30 times and Shakespeare's at most 70 times; a larger ratio indicates an attack.
LARGEST_RATIO, ALWAYS_ALLOWED = 100, 1 << 20
LONGEST_NAME = 1000  # characters of a user's name


def json_files(folder: Path) -> list[Path]:
    """Return the JSON files of a folder, plain or compressed, sorted by name; empty if there are none."""
    return sorted({path for suffix in OPENERS for path in folder.glob(f"*.json{suffix}") if path.is_file()})


def split_files(folder: Path) -> list[Path]:
    """Return the JSON files in train/ and test/ of a folder; empty if there are none. Raises UserError if only one has
    any."""
    train, test = json_files(folder / "train"), json_files(folder / "test")
    if bool(train) != bool(test):
        raise UserError(f"{folder}: must have JSON files in both train/ and test/, but one of them has none")
    return [*train, *test]


def read_users(path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield (user, x, y) of every user in the file, in its order; raises UserError if it is not in LEAF's layout."""
    with reading(path) as file:
        largest = min(LARGEST_FILE, ALWAYS_ALLOWED + LARGEST_RATIO * path.stat().st_size)
        content = read_at_most(file, largest + 1)
    if len(content) > largest < LARGEST_FILE:
        raise UserError(
            f"{path}: decompresses to more than {LARGEST_RATIO} times its size; get it again, or decompress it"
        )
    if len(content) > LARGEST_FILE:
        raise UserError(f"{path}: must be at most {LARGEST_FILE >> 30} GiB of JSON; split it into files of fewer users")
    try:
        tables = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON, or truncated ({type(error).__name__}); get the file again") from None
    del content
    users, counts, data = (
        tables.get(name) if isinstance(tables, dict) else None for name in ("users", "num_samples", "user_data")
    )
    if not (isinstance(users, list) and isinstance(counts, list) and isinstance(data, dict)):
        raise UserError(f"{path}: not a LEAF file; it must contain users, num_samples and user_data")
    if len(users) != len(counts):
        raise UserError(f"{path}: num_samples must have an entry for each of {len(users):,} users, got {len(counts):,}")
    for user, count in zip(users, counts, strict=True):
        table = data.get(user) if isinstance(user, str) and len(user) <= LONGEST_NAME else None
        x, y = (table.get(name) if isinstance(table, dict) else None for name in ("x", "y"))
        if not (isinstance(x, list) and isinstance(y, list)):
            raise UserError(f"{path}: user {_short(user)!r} has no lists x and y in user_data")
        if not (len(x) == len(y) == count):
            raise UserError(
                f"{path}: user {user!r} has {len(x):,} x and {len(y):,} y, but num_samples is {_short(count)[:20]}"
            )
        yield user, x, y


def _short(value: Any) -> str:
    """Return at most 40 characters of what should be a name or a number; the repr of a list may be endless."""
    return str(value)[:40] if isinstance(value, str | int | float) else f"a {type(value).__name__}"
