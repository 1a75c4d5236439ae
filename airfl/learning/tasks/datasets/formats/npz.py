"""Arrays of an npz file, without pickles, and without allocating more memory than the file contains."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from airfl.errors import UserError
from airfl.learning.tasks.datasets.formats.files import read_at_most

# Most bytes of all decompressed arrays together; the 817,851 characters of FEMNIST have 641 million.
LARGEST = 1 << 30
# Other compression methods allocate as much memory as the header of the archive says.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_npz(path: Path, wanted: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Read the arrays named in `wanted`, name -> dtype ("u1", "b", "i8", "U"), in native byte order.

    Raises UserError if the file is damaged, or an array is missing, of another dtype or not as long as declared.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays: dict[str, np.ndarray] = {}
            for name, kind in wanted.items():
                left = LARGEST - sum(array.nbytes for array in arrays.values())
                arrays[name] = _read_member(archive, f"{name}.npy", kind, left)
            return arrays
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except KeyError as error:
        raise UserError(f"{path}: missing array {str(error.args[0])[:80]}") from None
    except Exception as error:  # a damaged archive or header can raise anything
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise UserError(f"{path}: not a readable npz file ({reason}); get the file again") from None


def _read_member(archive: zipfile.ZipFile, name: str, kind: str, most: int) -> np.ndarray:
    if archive.getinfo(name).compress_type not in METHODS:
        raise ValueError(f"{name}: must be stored or deflated")
    with archive.open(name) as file:
        shape, fortran, dtype = _read_header(file)
        if dtype.kind != kind[0] or (len(kind) > 1 and dtype.itemsize != int(kind[1:])):
            raise ValueError(f"{name}: must have type {kind}, got {dtype}")
        if any(length < 0 for length in shape):
            raise ValueError(f"{name}: invalid shape {shape}")
        size = math.prod(shape) * dtype.itemsize
        if size > most:
            raise ValueError(f"{name}: shape {shape} is too large")
        content = read_at_most(file, size + 1)
    if len(content) != size:
        raise ValueError(f"{name}: must have {size:,} bytes, got {'more' if len(content) > size else len(content)}")
    array = np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    if dtype.kind == "b":
        return np.asarray(array.view(np.uint8) != 0)  # a byte in a file may be neither 0 nor 1
    return array.astype(dtype.newbyteorder("="), copy=False)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    if version != (1, 0):  # others are for longer headers, of up to 4 GiB, which may compress to very little
        raise ValueError(f"npy version must be (1, 0), got {version}")
    return npy.read_array_header_1_0(file)
