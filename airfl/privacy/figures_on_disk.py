"""An on-disk cache of privacy figures that are slow to compute."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing

from airfl.privacy.events import Adjacency, Event, releases
from airfl.storage.cache import make_cache_folder

FILE_NAME = "privacy.sqlite"
# Part of the cache key: raise it when the figures of the same event change.
FORMAT = 5
SECONDS_TO_WAIT = 2.0

version = functools.cache(importlib.metadata.version)

Figures = tuple[float, float]


def cached_figures(
    accountant: str, adjacency: Adjacency, delta: float, tolerance: float, event: Event, compute: Callable[[], Figures]
) -> Figures:
    """Return the two figures of this event from the cache, or compute and store them.

    The file is in the cache folder (AIRFL_CACHE) and may be deleted at any time. Where it cannot be read or written,
    the figures are computed.
    """
    address = _address(accountant, adjacency, delta, tolerance, event)
    figures = _read(address)
    if figures is None:
        figures = compute()
        _write(address, figures)
    return figures


def _address(accountant: str, adjacency: Adjacency, delta: float, tolerance: float, event: Event) -> str:
    counts: dict[str, int] = {}
    for release, count in releases(event):
        counts[repr(release)] = counts.get(repr(release), 0) + count
    key = (FORMAT, version("dp-accounting"), accountant, adjacency, delta, tolerance, sorted(counts.items()))
    return hashlib.sha256(repr(key).encode()).hexdigest()


def _read(address: str) -> Figures | None:
    try:
        with closing(_open()) as table:
            row = table.execute("select lower, upper, sum from sums where address = ?", (address,)).fetchone()
        if row is None:
            return None
        figures = _number(row[0]), _number(row[1])
        return figures if row[2] == _checksum(address, figures) else None
    except (sqlite3.Error, OSError, TypeError, ValueError):
        return None


def _write(address: str, figures: Figures) -> None:
    try:
        with closing(_open()) as table, table:
            row = (address, *figures, _checksum(address, figures))
            table.execute("insert or replace into sums values (?, ?, ?, ?)", row)
    except (sqlite3.Error, OSError, ValueError):
        return


def _number(stored: object) -> float:
    """Return a stored figure as a number; nan is stored as NULL."""
    return math.nan if stored is None else float(str(stored))


def _checksum(address: str, figures: Figures) -> str:
    """Return the checksum of a row, as a figure that was corrupted on disk is still a valid number."""
    return hashlib.sha256(f"{address} {figures[0].hex()} {figures[1].hex()}".encode()).hexdigest()


def _open() -> sqlite3.Connection:
    path = make_cache_folder() / FILE_NAME
    if path.is_symlink():
        raise OSError(f"{path}: is a symbolic link")
    table = sqlite3.connect(path, timeout=SECONDS_TO_WAIT)
    if {name for (name,) in table.execute("select name from sqlite_master where type = 'table'")} - {"sums"}:
        table.close()
        raise OSError(f"{path}: is a database of another program")
    table.execute("create table if not exists sums (address text primary key, lower real, upper real, sum text)")
    return table
