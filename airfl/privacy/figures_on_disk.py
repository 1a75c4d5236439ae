"""Privacy figures that took a while, kept on disk by what they are of."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing

from airfl.cache import make_cache_folder
from airfl.privacy.events import Adjacency, Event, releases

FILE_NAME = "privacy.sqlite"
# Part of the address: raise it when what is computed of the same event changes.
FORMAT = 4
SECONDS_TO_WAIT = 2.0

version = functools.cache(importlib.metadata.version)

Figures = tuple[float, float]


def kept_figures(
    accountant: str, adjacency: Adjacency, delta: float, tolerance: float, event: Event, compute: Callable[[], Figures]
) -> Figures:
    """The two figures of this event, from the disk if they are there, else computed and kept.

    The file is in the cache folder (AIRFL_CACHE); it may be deleted at any time. Where it cannot be read or written,
    the figures are computed.
    """
    address = _address(accountant, adjacency, delta, tolerance, event)
    found = _read(address)
    if found is None:
        found = compute()
        _write(address, found)
    return found


def _address(accountant: str, adjacency: Adjacency, delta: float, tolerance: float, event: Event) -> str:
    counts: dict[str, int] = {}
    for release, count in releases(event):
        counts[repr(release)] = counts.get(repr(release), 0) + count
    about = (FORMAT, version("dp-accounting"), accountant, adjacency, delta, tolerance, sorted(counts.items()))
    return hashlib.sha256(repr(about).encode()).hexdigest()


def _read(address: str) -> Figures | None:
    try:
        with closing(_open()) as table:
            row = table.execute("select lower, upper, sum from sums where address = ?", (address,)).fetchone()
        if row is None:
            return None
        found = _number(row[0]), _number(row[1])
        return found if row[2] == _checksum(address, found) else None
    except (sqlite3.Error, OSError, TypeError, ValueError):
        return None


def _write(address: str, figures: Figures) -> None:
    try:
        with closing(_open()) as table, table:
            row = (address, *figures, _checksum(address, figures))
            table.execute("insert or replace into sums values (?, ?, ?, ?)", row)
    except (sqlite3.Error, OSError, ValueError):
        return


def _number(kept: object) -> float:
    """A figure; the table has nothing in the place of nan."""
    return math.nan if kept is None else float(str(kept))


def _checksum(address: str, figures: Figures) -> str:
    """Of a row: a figure that was damaged on disk is still a number."""
    return hashlib.sha256(f"{address} {figures[0].hex()} {figures[1].hex()}".encode()).hexdigest()


def _open() -> sqlite3.Connection:
    path = make_cache_folder() / FILE_NAME
    if path.is_symlink():
        raise OSError(f"{path}: is a link")
    table = sqlite3.connect(path, timeout=SECONDS_TO_WAIT)
    if {name for (name,) in table.execute("select name from sqlite_master where type = 'table'")} - {"sums"}:
        table.close()
        raise OSError(f"{path}: is a data base of somebody else's")
    table.execute("create table if not exists sums (address text primary key, lower real, upper real, sum text)")
    return table
