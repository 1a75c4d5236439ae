"""Pickles of plain values and byte arrays, read without executing any code from them.

No name in a pickle is imported. The few names that numpy writes are mapped to the stand-ins below, all others are
refused, and an array is built here from the declared shape and the bytes that are present.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError

BYTE_TYPES = ("u1", "|u1", b"u1", b"|u1")


class _NotPlainError(Exception):
    """The pickle uses something that plain values and byte arrays do not need."""


class _ByteType:
    """Stands for numpy.dtype."""

    def __init__(self, name: Any, *_flags: Any) -> None:
        if name not in BYTE_TYPES:
            shown = name if isinstance(name, str | bytes) else type(name).__name__  # a tuple's repr may be endless
            raise _NotPlainError(f"arrays must be of bytes (u1), got type {shown[:20]!r}")

    def __setstate__(self, _state: Any) -> None:
        """Ignore byte order and the like, which do not matter for bytes."""


class _Array:
    """Stands for numpy.ndarray: (version, shape, type, Fortran order, content)."""

    value: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise _NotPlainError("an array without shape and content")
        _, shape, kind, fortran, content = state
        # A few dimensions below 2^31 are enough; the product of more could take forever.
        plain = isinstance(shape, tuple) and len(shape) <= 4 and all(type(n) is int and 0 <= n < 1 << 31 for n in shape)
        if not (plain and isinstance(kind, _ByteType) and isinstance(content, bytes)):
            raise _NotPlainError("an array that is not one of bytes")
        if math.prod(shape) != len(content):
            raise _NotPlainError(f"an array of shape {str(shape)[:40]} with {len(content):,} bytes")
        self.value = np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if fortran else "C")


class _Copies:
    """The number of bytes that may still be copied, since a memoised value can be used any number of times."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _NotPlainError("more values than the file can contain")


class _Fixed:
    """A stand-in for a function, which unlike a function accepts no attributes from BUILD."""

    __slots__ = ()

    def __setstate__(self, _state: Any) -> None:
        raise _NotPlainError("a state for a function")


class _Reconstruct(_Fixed):
    """Stands for numpy's function of this name, which creates an empty array to be filled with the state."""

    __slots__ = ()

    def __call__(self, *_arguments: Any) -> _Array:
        return _Array()


class _FromBuffer(_Fixed):
    """Stands for numpy's function of this name, which protocol 5 uses for arrays."""

    __slots__ = ("_copies",)

    def __init__(self, copies: _Copies) -> None:
        self._copies = copies

    def __call__(self, content: Any, kind: Any, shape: Any, order: Any) -> _Array:
        if not isinstance(content, bytes | bytearray) or order not in ("C", "F"):
            raise _NotPlainError("an array that is not one of bytes")
        self._copies.take(len(content))
        array = _Array()
        array.__setstate__((1, shape, kind, order == "F", bytes(content)))
        return array


class _Encode(_Fixed):
    """Stands for _codecs.encode, which Python 3 uses for bytes in protocol 2."""

    __slots__ = ("_copies",)

    def __init__(self, copies: _Copies) -> None:
        self._copies = copies

    def __call__(self, text: Any, encoding: Any) -> bytes:
        if not (isinstance(text, str) and encoding == "latin1"):
            raise _NotPlainError("an encoding other than latin1")
        self._copies.take(len(text))
        return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Callable[[_Copies], Any]] = {
    ("numpy", "dtype"): lambda _: _ByteType,
    ("numpy", "ndarray"): lambda _: _Array,
    ("numpy.core.multiarray", "_reconstruct"): lambda _: _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): lambda _: _Reconstruct(),
    ("numpy.core.numeric", "_frombuffer"): _FromBuffer,
    ("numpy._core.numeric", "_frombuffer"): _FromBuffer,
    ("_codecs", "encode"): _Encode,
}

# Opcodes of plain values and arrays. There are no extensions (whose cache bypasses find_class), persistent ids, sets or
# alternative ways of creating objects.
OPCODES = """
PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT
BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 UNICODE SHORT_BINUNICODE
BINUNICODE BINUNICODE8 EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT
SETITEM SETITEMS GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL REDUCE BUILD
"""
ALLOWED_OPCODES = frozenset(OPCODES.split())
# A batch takes 40,000 operations, or 110,000 and a tuple for each file name if written by Python 3 in protocol 2.
MOST_OPERATIONS, MOST_CONTAINERS = 200_000, 20_000
CONTAINERS = ("LIST", "TUPLE", "DICT")
LOOKS_UP = ("INST", "OBJ", "NEWOBJ", "NEWOBJ_EX")  # these call find_class, which refuses by name


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._copies = _Copies(len(content))

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            path = f"{module[:60]}.{name[:60]}"
            path = path if path.isprintable() else repr(path)
            raise _NotPlainError(f"it uses {path}, which such a file does not need")
        return ALLOWED[module, name](self._copies)


def load_array_pickle(path: Path, content: bytes) -> dict[Any, Any]:
    """Return the dictionary in a pickle, with byte arrays as uint8 arrays; `path` is for messages.

    Raises UserError for anything else, which is not executed.
    """
    try:
        _check_operations(content)
        value = _Unpickler(content).load()
    except _NotPlainError as error:
        raise UserError(f"{path}: refused, not a plain pickle of a data set: {error}") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise UserError(f"{path}: not a readable pickle ({type(error).__name__}); get the file again") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: must be a pickled dictionary, got {type(value).__name__}; get the file again")
    return {key: item.value if isinstance(item, _Array) else item for key, item in value.items()}


def _check_operations(content: bytes) -> None:
    """Check that there are few operations, all of them allowed, and no huge memo index, which would be allocated."""
    containers = 0
    for count, (code, argument, _) in enumerate(pickletools.genops(content)):
        if code.name not in ALLOWED_OPCODES and code.name not in LOOKS_UP:
            raise _NotPlainError(f"it uses {code.name}")
        # Nested tuples are hashed and freed recursively, without a check of the stack depth.
        containers += any(name in code.name for name in CONTAINERS)
        if count > MOST_OPERATIONS or containers > MOST_CONTAINERS:
            raise _NotPlainError("too many values")
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and isinstance(argument, int) and argument > 2 * count + 1000:
            raise _NotPlainError(f"memo index {argument:,} is too large")
