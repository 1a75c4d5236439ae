"""Encoding of text by LEAF's 80 characters in its order (Caldas et al. 2018), in a vocabulary of 90."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
UNKNOWN = len(LETTERS)
# The vocabulary size of the papers' models; ids above UNKNOWN do not occur.
VOCABULARY = 90
WINDOW = 80  # characters from which the next one is predicted

_ID_OF = np.full(128, UNKNOWN, dtype=np.uint8)
_ID_OF[[ord(letter) for letter in LETTERS]] = np.arange(len(LETTERS))


def encode(text: str) -> NDArray[np.uint8]:
    """Return the ids of a text's characters, [length]: 0 to 79 in LEAF's order, 80 for all others."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.where(codes < len(_ID_OF), _ID_OF[np.minimum(codes, len(_ID_OF) - 1)], np.uint8(UNKNOWN))
