"""TFRecord files of tf.train.Example records, read without TensorFlow.

A record is its length (uint64), the masked CRC-32C of these 8 bytes, its data, and the masked CRC-32C of the data, all
little-endian (TensorFlow, core/lib/io/record_writer.h). The data is a protocol buffer, `Example`; tensors in its byte
strings are `TensorProto`, as tf.io.serialize_tensor writes them.
"""

from __future__ import annotations

import functools
import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.recorded.source import RecordingError

HEADER, FOOTER = 12, 4
LONGEST_RECORD = 1 << 26
MOST_RECORDS = 10_000_000
POLYNOMIAL = 0x82F63B78
"""Castagnoli's polynomial, reversed."""
MASK, ROTATION = 0xA282EAD8, 15
LANES = 256
"""Parts of a record whose checksums are computed together."""
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 8: "<c8", 9: "<i8", 18: "<c16"}
"""TensorFlow's numbers of the types of tensors."""

Value = bytes | NDArray[np.float32] | NDArray[np.int64]


def places(path: Path) -> list[tuple[int, int]]:
    """Return offset and length of the data of every record. Raises RecordingError for the first damaged one."""
    size = os.stat(path).st_size
    found: list[tuple[int, int]] = []
    at = 0
    with open(path, "rb") as file:
        while at < size:
            number = len(found)
            if number >= MOST_RECORDS:
                raise RecordingError(f"has more than {MOST_RECORDS:,} records")
            file.seek(at)
            header = file.read(HEADER)
            if len(header) < HEADER:
                raise RecordingError(f"ends within record {number} (counted from 0); download it again")
            length, checksum = struct.unpack("<QI", header)
            if checksum != masked_crc(header[:8]):
                raise RecordingError(
                    f"is no TFRecord file, or damaged: the checksum of the length of record {number} (from 0) differs"
                )
            if length > LONGEST_RECORD:
                raise RecordingError(f"record {number} declares {length:,} bytes, at most {LONGEST_RECORD:,} are read")
            if at + HEADER + length + FOOTER > size:
                raise RecordingError(f"ends within record {number} (counted from 0); download it again")
            found.append((at + HEADER, length))
            at += HEADER + length + FOOTER
    if not found:
        raise RecordingError("has no records")
    return found


def record(path: Path, offset: int, length: int, number: int) -> bytes:
    """Return the data of a record. Raises RecordingError if its checksum differs."""
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read(length + FOOTER)
    if len(data) != length + FOOTER:
        raise RecordingError(f"ends within record {number} (counted from 0); download it again")
    if struct.unpack("<I", data[length:])[0] != masked_crc(data[:length]):
        raise RecordingError(f"record {number} (counted from 0) is damaged: its checksum differs; download it again")
    return data[:length]


def example(data: bytes) -> dict[str, Value]:
    """Return the features of an Example by name: a byte string, or numbers. Raises ValueError if it is none."""
    features: dict[str, Value] = {}
    for _, _, inside in _fields(data, wanted=1):
        for _, _, entry in _fields(inside, wanted=1):
            name, value = "", None
            for field, kind, content in _fields(entry):
                if field == 1 and kind == BYTES:
                    name = bytes(content).decode(errors="replace")
                elif field == 2 and kind == BYTES:
                    value = _feature(content)
            if value is not None:
                features[name] = value
    return features


def tensor(data: bytes) -> NDArray[Any]:
    """Return a serialised tensor. Raises ValueError if it is none, or its data is not of its shape."""
    dtype, shape, content, numbers = 0, [], b"", []
    for field, kind, value in _fields(data):
        if field == 1 and kind == VARINT:
            dtype = int(value)
        elif field == 2 and kind == BYTES:
            shape = [_size(dimension) for _, _, dimension in _fields(value, wanted=2)]
        elif field == 4 and kind == BYTES:
            content = bytes(value)
        elif field in (5, 6) and kind == BYTES:  # float_val and double_val
            numbers.append(np.frombuffer(value, "<f4" if field == 5 else "<f8"))
    if dtype not in DTYPES:
        raise ValueError(f"a tensor of type {dtype} of TensorFlow is not read")
    if any(not 0 <= one <= LONGEST_RECORD for one in shape):
        raise ValueError(f"a tensor has the shape {shape}")
    values: NDArray[Any] = np.concatenate(numbers) if numbers else np.frombuffer(content, DTYPES[dtype])
    if len(values) != math.prod(shape):
        raise ValueError(f"a tensor of shape {shape} has {len(values):,} numbers")
    return values.reshape(shape)


def _size(dimension: Any) -> int:
    return next((int(value) for field, kind, value in _fields(dimension) if field == 1 and kind == VARINT), 0)


def _feature(data: Any) -> Value | None:
    """Return the value of a Feature: one of bytes_list, float_list and int64_list."""
    for field, kind, content in _fields(data):
        if kind != BYTES:
            continue
        parts = [(kind, value) for number, kind, value in _fields(content) if number == 1]
        if field == 1 and parts:
            return bytes(parts[0][1]) if parts[0][0] == BYTES else None
        if field == 2 and parts:
            raw = b"".join(bytes(value) for _, value in parts)
            return np.frombuffer(raw, "<f4").astype(np.float32)
        if field == 3 and parts:
            whole: list[int] = []
            for kind, value in parts:
                whole += [int(value)] if kind == VARINT else list(_varints(value))
            return np.array([one - (1 << 64) if one >> 63 else one for one in whole], dtype=np.int64)
    return None


def _varints(data: Any) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _fields(data: Any, wanted: int | None = None) -> Iterator[tuple[int, int, Any]]:
    """Yield (number, wire type, value) of the fields of a message; only those of bytes with this number if wanted."""
    view = memoryview(data)
    at = 0
    while at < len(view):
        key, at = _varint(view, at)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == VARINT:
            value, at = _varint(view, at)
        else:
            if kind == BYTES:
                length, at = _varint(view, at)
            elif kind in (FIXED_32, FIXED_64):
                length = 4 if kind == FIXED_32 else 8
            else:
                raise ValueError(f"no protocol buffer: wire type {kind}")
            if length > len(view) - at:
                raise ValueError("no protocol buffer: a field is longer than the record")
            value = view[at : at + length]
            at += length
        if wanted is None or (number == wanted and kind == BYTES):
            yield number, kind, value


def _varint(data: Any, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise ValueError("no protocol buffer: a number does not end")


def masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C of some bytes, as TFRecord files store it."""
    checksum = crc32c(data)
    return (((checksum >> ROTATION) | (checksum << (32 - ROTATION))) + MASK) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes (RFC 3720, appendix B.4).

    Equal parts are computed side by side, each from register 0; the register after one part passes through the next as
    if it held zeros, which is linear, so that the parts add up.
    """
    width = len(data) // LANES
    register = 0xFFFFFFFF
    if width > 1:
        lanes = np.frombuffer(data, np.uint8, LANES * width).reshape(LANES, width)
        table = _table()
        registers = np.zeros(LANES, dtype=np.uint32)
        for column in np.ascontiguousarray(lanes.T):
            registers = table[(registers ^ column) & 0xFF] ^ (registers >> np.uint32(8))
        advance = _advance(width)
        for one in registers.tolist():
            register = (
                advance[0][register & 0xFF]
                ^ advance[1][(register >> 8) & 0xFF]
                ^ advance[2][(register >> 16) & 0xFF]
                ^ advance[3][register >> 24]
                ^ one
            )
        data = data[LANES * width :]
    small = _table().tolist()
    for byte in data:
        register = small[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF


@functools.lru_cache(maxsize=1)
def _table() -> NDArray[np.uint32]:
    """Return what a byte does to an empty register, [256]."""
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, (values >> np.uint32(1)) ^ np.uint32(POLYNOMIAL), values >> np.uint32(1))
    return values


@functools.lru_cache(maxsize=16)
def _advance(count: int) -> list[list[int]]:
    """Return what `count` bytes of zeros do to a register, for each of its four bytes, [4][256]."""
    table = _table()
    registers = np.concatenate([np.arange(256, dtype=np.uint32) << np.uint32(8 * byte) for byte in range(4)])
    for _ in range(count):
        registers = table[registers & 0xFF] ^ (registers >> np.uint32(8))
    return [one.tolist() for one in registers.reshape(4, 256)]
