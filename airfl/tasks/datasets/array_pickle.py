"""Pickles that hold plain values and arrays of bytes, read without running anything of theirs.

Nothing is looked up by the name a pickle gives: the three names that numpy writes lead to the stand-ins below, every
other one is refused, and an array is made here, from its announced shape and the bytes that are really there.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError

BYTE_TYPES = ("u1", "|u1", b"u1", b"|u1")


class _NotPlainError(Exception):
    """The pickle asks for something that plain values and arrays of bytes do not need."""


class _ByteType:
    """Stands for numpy.dtype."""

    def __init__(self, name: Any, *_flags: Any) -> None:
        if name not in BYTE_TYPES:
            raise _NotPlainError(f"an array of type {str(name)[:20]!r}, bytes (u1) are allowed")

    def __setstate__(self, _state: Any) -> None:
        """Byte order and the like: nothing that matters for bytes."""


class _Array:
    """Stands for numpy.ndarray: (version, shape, type, Fortran order, content)."""

    value: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise _NotPlainError("an array without shape and content")
        _, shape, kind, fortran, content = state
        plain = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
        if not (plain and isinstance(kind, _ByteType) and isinstance(content, bytes)):
            raise _NotPlainError("an array that is not one of bytes")
        if math.prod(shape) != len(content):
            raise _NotPlainError(f"an array of shape {str(shape)[:40]} with {len(content):,} bytes")
        self.value = np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_arguments: Any) -> _Array:
    """Stands for numpy's function of that name, which makes the empty array that the state is then put into."""
    return _Array()


def _encode(text: Any, encoding: Any) -> bytes:
    """Stands for _codecs.encode, with which Python 3 writes bytes in protocol 2."""
    if not (isinstance(text, str) and encoding == "latin1"):
        raise _NotPlainError("an encoding other than latin1")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _ByteType,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise _NotPlainError(f"it asks for {module}.{name}, which such a file does not need")
        return ALLOWED[module, name]


def load_array_pickle(path: Path, content: bytes) -> dict[Any, Any]:
    """The dictionary in a pickle, arrays of bytes as uint8 arrays; `path` is for the message.

    Raises UserError for anything else, before or instead of doing what it asks for.
    """
    try:
        _check_memo(content)
        value = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except _NotPlainError as error:
        raise UserError(f"{path}: refused, not a plain pickle of a data set: {error}") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise UserError(f"{path}: not a readable pickle ({type(error).__name__}); get the file again") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: a pickled dictionary is wanted, not {type(value).__name__}; get the file again")
    return {key: item.value if isinstance(item, _Array) else item for key, item in value.items()}


def _check_memo(content: bytes) -> None:
    """A number for a remembered value that is far above their count would make the unpickler allocate up to it."""
    for count, (code, argument, _) in enumerate(pickletools.genops(content)):
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and isinstance(argument, int) and argument > 2 * count + 1000:
            raise _NotPlainError(f"a remembered value numbered {argument:,}")
