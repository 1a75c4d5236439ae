"""The idx format of MNIST and its kin: plain or gzipped, checked before it is believed."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError

UNSIGNED_BYTE = 8


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file with that many dimensions (images 3, labels 1).

    Raises UserError if the file is missing, not idx, cut off or longer than its header says.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            header = file.read(4 + 4 * dimensions)
            if header[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]):
                raise UserError(
                    f"{path}: not an idx file of {dimensions}-dimensional bytes: "
                    f"begins {header[:4].hex() or 'with nothing'}, 0000{UNSIGNED_BYTE:02x}{dimensions:02x} is wanted"
                )
            if len(header) < 4 + 4 * dimensions:
                raise UserError(f"{path}: cut off within its header; get the file again")
            shape = struct.unpack(f">{dimensions}I", header[4:])
            # The header is not trusted with an allocation: read what is there, one byte more than is wanted at most.
            wanted = math.prod(shape)
            body = _read_at_most(cast(IO[bytes], file), wanted + 1)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error}); get the file again") from None
    if len(body) != wanted:
        found = "more" if len(body) > wanted else f"{len(body):,}"
        raise UserError(f"{path}: {wanted:,} bytes of data announced, {found} found; get the file again")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _read_at_most(file: IO[bytes], limit: int) -> bytes:
    blocks, size = [], 0
    while size < limit:
        block = file.read(min(1 << 20, limit - size))
        if not block:
            break
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)
