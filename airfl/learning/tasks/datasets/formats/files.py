"""Reading of data files, plain or compressed (gzip, xz), with limits on size and one-line errors."""

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
    """Return the file of this name in the folder, plain, .gz or .xz in this order; None if there is none."""
    return next((path for suffix in OPENERS if (path := folder / f"{name}{suffix}").is_file()), None)


def find_all(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return all the files, or an empty list if none exists; raises UserError if some are missing."""
    paths = {name: find(folder, name) for name in names}
    missing = [name for name, path in paths.items() if path is None]
    if len(missing) == len(paths):
        return []
    if missing:
        raise UserError(f"{folder}: {missing[0]} is missing (plain, .gz or .xz); get the data set again")
    return [path for path in paths.values() if path is not None]


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """Open the decompressed content of a file; errors while it is read become a UserError."""
    opener = OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            yield cast(IO[bytes], file)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except MemoryError:  # an xz file determines how much memory its reader allocates
        raise UserError(f"{path}: not enough memory to decompress it; get the file again") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"{path}: cannot be read ({error}); get the file again") from None


def read_at_most(file: IO[bytes], limit: int) -> bytes:
    """Read at most `limit` bytes; memory is allocated for the bytes that exist, not for those that are declared."""
    blocks, size = [], 0
    while size < limit:
        block = file.read(min(BLOCK_BYTES, limit - size))
        if not block:
            break
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)


def check_length(path: Path, content: bytes, expected: int) -> None:
    """Check that content, of which at most expected + 1 bytes were read, has the expected length (else UserError)."""
    if len(content) != expected:
        actual = "more" if len(content) > expected else f"{len(content):,}"
        raise UserError(f"{path}: must have {expected:,} bytes of data, got {actual}; get the file again")
