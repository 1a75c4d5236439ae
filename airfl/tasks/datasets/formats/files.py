"""Files of data sets: plain, gzipped or xz, read no further than is wanted, refused in one line."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from airfl.errors import UserError

OPENERS: dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".xz": lzma.open}
BLOCK_BYTES = 1 << 20


def find(folder: Path, name: str) -> Path | None:
    """The file of that name in the folder: plain, else .gz, else .xz; None if there is none."""
    return next((path for suffix in OPENERS if (path := folder / f"{name}{suffix}").is_file()), None)


def find_all(folder: Path, names: Sequence[str]) -> list[Path]:
    """All the files, or an empty list if none of them is there; UserError if some are missing."""
    found = {name: find(folder, name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if len(missing) == len(found):
        return []
    if missing:
        raise UserError(f"{folder}: {missing[0]} is missing (plain, .gz or .xz); get the data set again")
    return [path for path in found.values() if path is not None]


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """The unpacked content; UserError for whatever goes wrong with the file while it is read."""
    opener = OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            yield cast(IO[bytes], file)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except MemoryError:  # an xz file says how much its reader has to set aside
        raise UserError(f"{path}: unpacking it asks for more memory than there is; get the file again") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"{path}: cannot be read ({error}); get the file again") from None


def read_at_most(file: IO[bytes], limit: int) -> bytes:
    """What is there, up to `limit` bytes: memory follows the file and not what it announces."""
    blocks, size = [], 0
    while size < limit:
        block = file.read(min(BLOCK_BYTES, limit - size))
        if not block:
            break
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)


def check_length(path: Path, content: bytes, wanted: int) -> None:
    """UserError unless a content that was read to wanted + 1 bytes at most has `wanted`."""
    if len(content) != wanted:
        found = "more" if len(content) > wanted else f"{len(content):,}"
        raise UserError(f"{path}: {wanted:,} bytes of data announced, {found} found; get the file again")
