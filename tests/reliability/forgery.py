"""Traces and checkpoints in which any value is replaced while seals and checksums match: parsers are reached."""

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from airfl.core.checkpoint.serialisation import DIGEST, MAGIC
from airfl.storage.trace.file import NO_VARIABLE
from airfl.storage.trace.integrity import FOOTER, seal

Edit = Callable[[h5py.File], object]
DEEP: Any = functools.reduce(lambda inner, _: [inner], range(200), [])
REALS: tuple[float, ...] = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, -1e308, 5e-324, 0.5)
TEXTS = ("", "x" * 5000, "[/]", "\x1b[31m", "=1+1", "\n", "\u202e", "{", "complete", "0")
ODD: tuple[Any, ...] = (None, -1, 0, 1, 1e9, 2**63, -(2**63), 0.5, "", "x", "nan", "inf", [], [1], {}, {"a": 1}, True)
"""Of JSON."""


def unsealed(data: bytes) -> bytes:
    return data[: FOOTER.unpack(data[-FOOTER.size :])[0]]


def write_sealed(path: Path, data: bytes) -> None:
    """As anybody can."""
    path.write_bytes(data)
    seal(path)


def attributes(file: h5py.File) -> list[tuple[str, str]]:
    """(object, attribute) of all that the schema has."""
    every = [("/", name) for name in file.attrs] + [(one, name) for one in file for name in file[one].attrs]
    return [(where, name) for where, name in every if not name.isupper() and not name.startswith("_")]


def attribute(name: str, value: Any, of: str = "/") -> Edit:
    """Put this value into an attribute; none removes it."""

    def change(file: h5py.File) -> None:
        file[of].attrs.pop(name, None)
        if value is not None:
            file[of].attrs[name] = value

    return change


def value_at(name: str, place: Any, value: Any) -> Edit:
    def change(file: h5py.File) -> None:
        with np.errstate(all="ignore"):
            file[name][place] = value

    return change


def replaced_attributes(path: Path) -> Iterator[tuple[str, Edit]]:
    """(name, what to do) with every attribute of a trace."""
    with h5py.File(path) as file:
        for where, name in attributes(file):
            if (where, name) == ("/", "schema"):
                continue
            others: list[Any] = [None, *TEXTS]
            if not isinstance(file[where].attrs[name], str):
                others += [*REALS, np.int64(-(2**63)), np.uint64(2**64 - 1), np.int8(-1), np.bool_(True), 1 + 1j]
            for other in others:
                yield f"{where} {name} = {str(other)[:20]!r}", attribute(name, other, where)


def replaced_values(path: Path) -> Iterator[tuple[str, Edit]]:
    """(name, what to do) with every variable of a trace: one value in place of all, or of the last."""
    with h5py.File(path) as file:
        for name, item in file.items():
            if not item.size or item.attrs.get("CLASS") == b"DIMENSION_SCALE":
                continue
            limits = np.iinfo(item.dtype) if item.dtype.kind == "i" else None
            others: tuple[Any, ...] = (limits.min, -1, 0, 1, limits.max) if limits else REALS
            for other, place in itertools.product(others, (..., -1)):
                yield f"{name}[{place}] = {other}", value_at(name, place, other)


def replaced_settings(path: Path) -> Iterator[tuple[str, Edit]]:
    """(name, what to do) with every setting of a trace's config, and without it."""
    with h5py.File(path) as file:
        config = json.loads(file.attrs["config"])
    for section, table in config.items():
        for name in [None, *table]:
            for other in (*ODD, DEEP):
                changed = {**config, section: other if name is None else {**table, name: other}}
                yield f"{section}.{name} = {str(other)[:20]!r}", attribute("config", json.dumps(changed))
            changed = {key: value for key, value in config.items() if key != section}
            if name is not None:
                changed[section] = {key: value for key, value in table.items() if key != name}
            yield f"without {section}.{name}", attribute("config", json.dumps(changed))


def edited(path: Path, data: bytes, change: Edit, *, sealed: bool = True) -> Path:
    """A trace with something else in it, and a seal, as anybody can make it."""
    path.write_bytes(data)
    with h5py.File(path, "a") as file:
        change(file)
    if sealed:
        seal(path)
    return path


def declare(file: h5py.File, name: str, dimensions: Sequence[str], shape: tuple[int, ...], **how: Any) -> h5py.Dataset:
    """Another dataset in a variable's place, tied to these dimensions."""
    dtype = file[name].dtype
    del file[name]
    made = file.create_dataset(name, shape, **{"dtype": dtype, "maxshape": [None] * len(shape), **how})
    for axis, dimension in enumerate(dimensions):
        made.dims[axis].attach_scale(file[dimension])
    return made


def declare_signals(file: h5py.File, coordinates: int) -> None:
    """Signals of so many coordinates, of which there is none."""
    del file["coordinate"]
    file.create_dataset("coordinate", (coordinates,), ">f4").make_scale(NO_VARIABLE.decode())
    for name in ("tx_symbols", "coordinates", "rx_symbols"):
        dimensions = ("round", "slot", "coordinate")[:: 1 if file[name].ndim == 3 else 2]
        declare(file, name, dimensions, (*file[name].shape[:-1], coordinates), chunks=True, compression=9)


def pack(header: bytes, body: bytes) -> bytes:
    """A pack of a checkpoint, with lengths and a checksum that fit."""
    total = len(MAGIC) + 16 + len(header) + len(body) + DIGEST
    whole = MAGIC + total.to_bytes(8, "little") + len(header).to_bytes(8, "little") + header + body
    return whole + hashlib.sha256(whole).digest()


def packs(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """(header, arrays) of each pack in a file of a checkpoint."""
    found = []
    while data:
        total, header = (int.from_bytes(data[len(MAGIC) + at :][:8], "little") for at in (0, 8))
        start = len(MAGIC) + 16
        found.append((json.loads(data[start : start + header]), data[start + header : total - DIGEST]))
        data = data[total:]
    return found


def forged_packs(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Files of a checkpoint in which everything that is said is replaced, one thing at a time, in the last pack."""
    *before, (header, body) = packs(data)
    first = b"".join(pack(json.dumps(one).encode(), content) for one, content in before)
    for name, changed in _replaced(header, "header"):
        yield name, first + pack(json.dumps(changed).encode(), body)
    for text in (b"", b"[" * 100_000, b'{"value":' * 50_000, b"1" * 5000, b"\xff\xfe", b"null", b"[]", b"{}", b"3"):
        yield f"header {text[:10]!r}", first + pack(text, body)
    size = len(body)
    for content in (b"", body[: size // 2], bytes(size), body * 2, b"\xff" * size):
        yield f"arrays {content[:4]!r} of {len(content)}", first + pack(json.dumps(header).encode(), content)
    place = 0
    for name, kind, shape in header["arrays"]:
        dtype = np.dtype(kind)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        others: tuple[Any, ...] = REALS if dtype.kind in "fc" else (-1, 0, 1, 100)
        if dtype.kind == "i":
            limits = np.iinfo(dtype)
            others = (*others, limits.min, limits.max)
        for other in others:
            with np.errstate(all="ignore"):
                replaced = np.full(shape, other).astype(dtype).tobytes()
            changed = body[:place] + replaced + body[place + size :]
            yield f"{name} = {other}", first + pack(json.dumps(header).encode(), changed)
        place += size


def _replaced(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """JSON with one thing in it replaced, or left out."""
    for other in (*ODD, -0.5, 10**9, 10**30, "threads", "|O", "<f8", "<i8", "<M8[s]", "V8", DEEP):
        yield f"{where} = {str(other)[:20]!r}", other
    if isinstance(value, dict):
        for key in value:
            yield f"without {where}.{key}", {one: kept for one, kept in value.items() if one != key}
            for name, changed in _replaced(value[key], f"{where}.{key}"):
                yield name, {**value, key: changed}
        yield f"{where} and more", {**value, "more": 1}
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield f"without {where}[{place}]", value[:place] + value[place + 1 :]
            for name, changed in _replaced(one, f"{where}[{place}]"):
                yield name, [*value[:place], changed, *value[place + 1 :]]
        yield f"{where} twice", value * 2
    elif isinstance(value, str) and value.startswith("{"):  # settings, as JSON text
        for name, changed in _replaced(json.loads(value), where):
            yield name, json.dumps(changed)
