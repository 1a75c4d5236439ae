"""Cache of decoded data sets as plain, memory-mapped arrays, which all processes share."""

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

from airfl.learning.tasks.datasets.formats.files import BLOCK_BYTES
from airfl.learning.tasks.datasets.raw import RawData
from airfl.storage.cache import cache_folder, make_cache_folder
from airfl.storage.own_files import is_file, is_folder, remove_files

log = logging.getLogger(__name__)

# Part of the key: raise it when a loader's result for the same files changes.
FORMAT = 1
META, SUM = "meta.json", "sum"
MARKER_NAME, MARKER = "airfl", b"data that airfl has decoded\n"
"""A file in each folder, written first, which shows that airfl may remove the folder."""
UNFINISHED = "unfinished-"
SECONDS_OF_A_DAY = 86_400
ARRAYS = ("train_inputs", "train_targets", "test_inputs", "test_targets", "train_writers", "test_writers")
OWN_NAMES = frozenset({META, MARKER_NAME, *(f"{field}.npy" for field in ARRAYS)})


def scratch(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return an array of zeros for a loader to decode into.

    It is mapped to an unnamed file in the cache folder, so that a large data set need not fit into memory. If no such
    file can be created, it is in memory.
    """
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()) as file:
            # Reserve the space first, so that a full disk is noticed here and not in the middle of a write to memory.
            os.posix_fallocate(file.fileno(), 0, math.prod(shape))
            return np.memmap(file, dtype=np.uint8, mode="r+", shape=shape)
    except (OSError, AttributeError):  # AttributeError: a system without posix_fallocate
        return np.zeros(shape, dtype=np.uint8)


def cached(name: str, files: Sequence[Path], load: Callable[[], RawData]) -> RawData:
    """Return the data set `name`, from the cache if these files have not changed; otherwise decode and store it.

    The arrays are memory-mapped, copy-on-write. If the cache cannot be written, the decoded data is returned.
    """
    folder = cache_folder() / name / _key(files)
    entry = _read(folder)
    if entry:
        return entry
    log.info("decoding %s (once; cached in %s)", name, folder)
    raw = load()
    try:
        _write(raw, folder, _places(files))
        _tidy(folder)
    except OSError as error:
        entry = _read(folder)  # another process was first
        if entry is None:
            log.warning(
                "%s: the cache cannot be written (%s); the data is decoded every time", folder, error.strerror or error
            )
        return entry or raw
    return _read(folder) or raw


def _key(files: Sequence[Path]) -> str:
    """Return a hash of path, size and modification time of the files, and of the format."""
    stats = [(path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(json.dumps([FORMAT, _places(files), stats]).encode()).hexdigest()[:16]


def _places(files: Sequence[Path]) -> list[str]:
    return [str(path.resolve()) for path in files]


def _write(raw: RawData, folder: Path, places: list[str]) -> None:
    """Write all files to a temporary folder and rename it, so that a reader finds everything or nothing."""
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
        if _read(folder) is None:  # otherwise another process was first
            _remove(folder)
            unfinished.rename(folder)  # fails if the folder contains files that are not airfl's
    finally:
        _remove(unfinished)


def _remove(folder: Path) -> None:
    """Remove a folder that airfl has written. If it contains anything else, such as a link, nothing is removed."""
    if is_folder(folder) and _is_own(folder):
        with suppress(OSError):
            remove_files(folder, OWN_NAMES.__contains__, last=MARKER_NAME)
            folder.rmdir()


def _is_own(folder: Path) -> bool:
    """Whether airfl has written the folder, by its file names and marker, or, before there were markers, by intact
    metadata."""
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
    """Remove entries of earlier versions of the same files, and those that killed writers left over a day ago."""
    for other in set(folder.parent.iterdir()) - {folder}:
        if other.name.startswith(UNFINISHED):
            outdated = time.time() - other.stat().st_mtime > SECONDS_OF_A_DAY
        else:
            outdated = _places_of(other) == _places_of(folder)
        if outdated:
            _remove(other)  # processes that have it mapped can still use it


def _meta(folder: Path) -> Any:
    """Read the metadata; raises FileNotFoundError without a file and ValueError if it is damaged."""
    path = folder / META
    if not path.is_file():  # reading a pipe would block
        raise FileNotFoundError(path)
    return json.loads(path.read_text(encoding="utf-8"))


def _sum(path: Path) -> int:
    """Return the checksum of a file, by which bad blocks are noticed (0.1 s for CIFAR-10)."""
    if not path.is_file():  # reading a pipe would block
        raise FileNotFoundError(path)
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _sum_of(meta: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(meta, sort_keys=True).encode())


def _places_of(folder: Path) -> Any:
    """Return the paths of the files that an entry was made from; the unique folder itself if that cannot be read."""
    try:
        return _meta(folder)["places"]
    except Exception:  # a damaged file can raise anything
        return folder


def _read(folder: Path) -> RawData | None:
    """Return the entry in a folder, or None if it is missing or damaged."""
    try:
        meta = _meta(folder)
        if meta.pop(SUM) != _sum_of(meta):
            return None
        if any(_sum(folder / f"{field}.npy") != meta["sums"][field] for field in meta["shapes"]):
            return None
        arrays: dict[str, Any] = {
            # "c" (copy-on-write): torch needs writable arrays; nothing is written, so the pages stay shared.
            field: open_memmap(folder / f"{field}.npy", mode="c")
            for field in meta["shapes"]
        }
        if any([str(array.dtype), *array.shape] != meta["shapes"][field] for field, array in arrays.items()):
            return None
        return RawData(**arrays, classes=meta["classes"], mean=tuple(meta["mean"]), std=tuple(meta["std"]))
    except Exception:  # a damaged file can raise anything
        return None
