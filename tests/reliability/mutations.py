"""Damaged versions of a file: truncated, with flipped bytes and bits, moved blocks, and replaced header numbers."""

import itertools
import struct
from collections.abc import Callable, Iterator

import numpy as np

Mutation = Callable[[np.random.Generator, bytes], bytes]

HEADER = 256  # bytes in which a format is likely to keep its sizes
NUMBERS = (0, 1, -1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, -0x80000000, 0x7FFFFFFFFFFFFFFF, -0x8000000000000000)
DIGITS = tuple(b"0 -1 99999999999999999999 1e999 -1e999 NaN Infinity 4294967296 0.5 null".split())
PIECES = (
    *(b"\x00", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\n", b"\r", b"[" * 5000),
    *(b"{", b"}", b'"', b"\\u0000", b":", b",", b" "),
)


def truncated(data: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    """`data` cut at `count` lengths evenly spread from 0 to all but one byte (each length once)."""
    if data:
        for length in sorted({int(place) for place in np.linspace(0, len(data) - 1, count)}):
            yield f"cut at {length} of {len(data)}", data[:length]


def flipped(rng: np.random.Generator, data: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    """`data` with one byte replaced by another, `count` times at random places."""
    for _ in range(count if data else 0):
        place, other = int(rng.integers(len(data))), int(rng.integers(1, 256))
        yield f"byte {place} of {len(data)} xor {other:#04x}", _replace(data, place, bytes([data[place] ^ other]))


def mutations(rng: np.random.Generator, data: bytes, first: int = 0) -> Iterator[tuple[str, bytes]]:
    """(name, damaged bytes) without end, every kind in turn from the `first` on, for files that get a few each."""
    for number in itertools.count(first):
        name, mutation = MUTATIONS[number % len(MUTATIONS)]
        yield f"{name} {number}", mutation(rng, data)


def _byte(rng: np.random.Generator, data: bytes) -> bytes:
    return next((damaged for _, damaged in flipped(rng, data, 1)), b"?")


def _bit(rng: np.random.Generator, data: bytes) -> bytes:
    place = _place(rng, data)
    return _replace(data, place, bytes([data[place] ^ (1 << int(rng.integers(8)))])) if data else b"?"


def _many_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(int(rng.integers(2, 30)) if data else 0):
        damaged[int(rng.integers(len(data)))] = int(rng.integers(256))
    return bytes(damaged)


def _inserted(rng: np.random.Generator, data: bytes) -> bytes:
    place = _place(rng, data)
    return data[:place] + rng.bytes(int(rng.integers(1, 64))) + data[place:]


def _of_a_block(change: Callable[[bytes, bytes, bytes], bytes]) -> Mutation:
    """By what stands before a block, the block, and what follows it; short blocks are as likely as long ones."""

    def mutation(rng: np.random.Generator, data: bytes) -> bytes:
        start = _place(rng, data)
        end = start + min(int(2 ** rng.uniform(0, 16)), max(len(data) - start, 1))
        return change(data[:start], data[start:end], data[end:])

    return mutation


def _swapped(rng: np.random.Generator, data: bytes) -> bytes:
    a, b = sorted((_place(rng, data), _place(rng, data)))
    length = min(b - a, len(data) - b, 512)
    damaged = bytearray(data)
    damaged[a : a + length], damaged[b : b + length] = data[b : b + length], data[a : a + length]
    return bytes(damaged)


def _number(rng: np.random.Generator, data: bytes) -> bytes:
    """A whole number of the header, of 1 to 8 bytes in either byte order, becomes an extreme one."""
    size, order = int(rng.choice((1, 2, 4, 8))), str(rng.choice(("<", ">")))
    value = NUMBERS[int(rng.integers(len(NUMBERS)))] & ((1 << (8 * size)) - 1)
    packed = struct.pack(f"{order}Q", value)
    place = _place(rng, data[:HEADER]) if rng.integers(2) else _place(rng, data)
    return _replace(data, place, packed[:size] if order == "<" else packed[-size:])


def _digits(rng: np.random.Generator, data: bytes) -> bytes:
    """A run of ASCII digits becomes another number (a text format's value or size); else a byte flips."""
    places = [place for place in range(len(data[: 1 << 16])) if data[place] in b"0123456789"]
    if not places:
        return _byte(rng, data)
    start = end = places[int(rng.integers(len(places)))]
    while start > 0 and data[start - 1] in b"0123456789":
        start -= 1
    while end < len(data) and data[end] in b"0123456789":
        end += 1
    return data[:start] + DIGITS[int(rng.integers(len(DIGITS)))] + data[end:]


def _piece(rng: np.random.Generator, data: bytes) -> bytes:
    """Bytes that text formats stumble on: half a UTF-8 character, brackets without end, a NUL."""
    place = _place(rng, data)
    return data[:place] + PIECES[int(rng.integers(len(PIECES)))] + data[place:]


def _place(rng: np.random.Generator, data: bytes) -> int:
    return int(rng.integers(len(data))) if data else 0


def _replace(data: bytes, place: int, piece: bytes) -> bytes:
    """`piece` over the bytes at `place`; the length stays."""
    return (data[:place] + piece + data[place + len(piece) :])[: len(data)]


MUTATIONS: tuple[tuple[str, Mutation], ...] = (
    ("cut", lambda rng, data: data[: _place(rng, data)]),
    ("byte", _byte),
    ("bit", _bit),
    ("number", _number),
    ("header byte", lambda rng, data: _byte(rng, data[:HEADER]) + data[HEADER:]),
    ("digits", _digits),
    ("inserted", _inserted),
    ("removed", _of_a_block(lambda before, block, after: before + after)),
    ("doubled", _of_a_block(lambda before, block, after: before + block + block + after)),
    ("swapped", _swapped),
    ("zeros", _of_a_block(lambda before, block, after: before + bytes(len(block)) + after)),
    ("many bytes", _many_bytes),
    ("piece", _piece),
    ("head cut", lambda rng, data: data[_place(rng, data) :]),
    ("tail", lambda rng, data: data + rng.bytes(int(rng.integers(1, 300)))),
    ("noise", lambda rng, data: rng.bytes(int(rng.integers(len(data) + 1)))),
)
