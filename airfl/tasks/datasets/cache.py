"""Decoded data sets, kept as plain arrays and memory-mapped: decoded once, shared by all processes that use them."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from airfl.cache import cache_folder, make_cache_folder
from airfl.own import is_file, is_folder, remove_files
from airfl.tasks.datasets.formats.files import BLOCK_BYTES
from airfl.tasks.datasets.raw import RawData

log = logging.getLogger(__name__)

# Part of the address: raise it when what a loader gives for the same files changes.
FORMAT = 1
META, SUM = "meta.json", "sum"
MARKER_NAME, MARKER = "airfl", b"data that airfl has decoded\n"
"""A file in each folder, written first: what says that airfl may remove it."""
UNFINISHED = "unfinished-"
SECONDS_OF_A_DAY = 86_400
ARRAYS = ("train_inputs", "train_targets", "test_inputs", "test_targets", "train_writers", "test_writers")
OWN_NAMES = frozenset({META, MARKER_NAME, *(f"{field}.npy" for field in ARRAYS)})


def scratch(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """An array of zeros, for a loader to decode into: on a nameless file in the cache folder, so that a large data set
    need not fit into memory; in memory where no such file can be had.
    """
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()) as file:
            # Reserved first: a full disk must be met here and not in the middle of a write to memory.
            os.posix_fallocate(file.fileno(), 0, math.prod(shape))
            return np.memmap(file, dtype=np.uint8, mode="r+", shape=shape)
    except (OSError, AttributeError):  # AttributeError: a system without posix_fallocate
        return np.zeros(shape, dtype=np.uint8)


def cached(name: str, files: Sequence[Path], load: Callable[[], RawData]) -> RawData:
    """The data set `name` made of these files: from the cache if they have not changed, else decoded and kept.

    The arrays are memory-mapped, copy-on-write. Where nothing can be written the decoded data is returned as it is.
    """
    folder = cache_folder() / name / _address(files)
    kept = _read(folder)
    if kept:
        return kept
    log.info("decoding %s (once; kept in %s)", name, folder)
    raw = load()
    try:
        _write(raw, folder, _places(files))
        _tidy(folder)
    except OSError as error:
        kept = _read(folder)  # another process was first
        if kept is None:
            log.warning("%s: cannot be kept (%s); it is decoded anew each time", folder, error.strerror or error)
        return kept or raw
    return _read(folder) or raw


def _address(files: Sequence[Path]) -> str:
    """Changes with the place, size and time of any file, and with the format."""
    stats = [(path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(json.dumps([FORMAT, _places(files), stats]).encode()).hexdigest()[:16]


def _places(files: Sequence[Path]) -> list[str]:
    return [str(path.resolve()) for path in files]


def _write(raw: RawData, folder: Path, places: list[str]) -> None:
    """All files in a folder of their own, then one rename: a reader finds everything or nothing."""
    make_cache_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=UNFINISHED))
    try:
        (unfinished / MARKER_NAME).write_bytes(MARKER)
        arrays = {field: array for field in ARRAYS if (array := getattr(raw, field)) is not None}
        for field, array in arrays.items():
            np.save(unfinished / f"{field}.npy", array)
        shapes = {field: [str(array.dtype), *array.shape] for field, array in arrays.items()}
        sums = {field: _sum(unfinished / f"{field}.npy") for field in arrays}
        meta = {"shapes": shapes, "classes": raw.classes, "mean": raw.mean, "std": raw.std, "places": places}
        meta |= {"sums": sums}
        (unfinished / META).write_text(json.dumps({**meta, SUM: _sum_of(meta)}), encoding="utf-8")
        if _read(folder) is None:  # else another process was first, just as good
            _remove(folder)
            unfinished.rename(folder)  # what is not airfl's is in the way
    finally:
        _remove(unfinished)


def _remove(folder: Path) -> None:
    """A folder that airfl has made. With anything else in it, a link for one, all of it stays."""
    if is_folder(folder) and _is_own(folder):
        with suppress(OSError):
            remove_files(folder, OWN_NAMES.__contains__, last=MARKER_NAME)
            folder.rmdir()


def _is_own(folder: Path) -> bool:
    """By the names in it, and its marker; or what is told of its arrays, where that is whole: before there was one."""
    try:
        if not all(path.name in OWN_NAMES and is_file(path) for path in folder.iterdir()):
            return False
        if is_file(folder / MARKER_NAME) and MARKER.startswith((folder / MARKER_NAME).read_bytes()):
            return True
        meta = _meta(folder)
        return bool(meta.pop(SUM) == _sum_of(meta))
    except Exception:  # a damaged file can raise anything
        return False


def _tidy(folder: Path) -> None:
    """Remove what earlier versions of the same files gave, and what writers that were killed left a day ago."""
    for other in set(folder.parent.iterdir()) - {folder}:
        if other.name.startswith(UNFINISHED):
            outdated = time.time() - other.stat().st_mtime > SECONDS_OF_A_DAY
        else:
            outdated = _places_of(other) == _places_of(folder)
        if outdated:
            _remove(other)  # whoever has it mapped keeps it until the end


def _meta(folder: Path) -> Any:
    """What is told of the arrays; FileNotFoundError where there is no such file, ValueError where it is not whole."""
    path = folder / META
    if not path.is_file():  # a pipe is waited for without end
        raise FileNotFoundError(path)
    return json.loads(path.read_text(encoding="utf-8"))


def _sum(path: Path) -> int:
    """Of a file's bytes: a bad block is noticed and not trained on (0.1 s for CIFAR-10)."""
    if not path.is_file():  # a pipe is waited for without end
        raise FileNotFoundError(path)
    found = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            found = zlib.crc32(block, found)
    return found


def _sum_of(meta: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(meta, sort_keys=True).encode())


def _places_of(folder: Path) -> Any:
    """Where the files lay that are kept there; the folder itself if that cannot be read, which is like no other."""
    try:
        return _meta(folder)["places"]
    except Exception:  # a damaged file can raise anything
        return folder


def _read(folder: Path) -> RawData | None:
    """What is kept there, or None if it is not whole."""
    try:
        meta = _meta(folder)
        if meta.pop(SUM) != _sum_of(meta):
            return None
        if any(_sum(folder / f"{field}.npy") != meta["sums"][field] for field in meta["shapes"]):
            return None
        arrays: dict[str, Any] = {
            # "c": torch wants arrays it could write to; nobody does, so the pages stay shared.
            field: open_memmap(folder / f"{field}.npy", mode="c")
            for field in meta["shapes"]
        }
        if any([str(array.dtype), *array.shape] != meta["shapes"][field] for field, array in arrays.items()):
            return None
        return RawData(**arrays, classes=meta["classes"], mean=tuple(meta["mean"]), std=tuple(meta["std"]))
    except Exception:  # a damaged file can raise anything
        return None
