"""A sweep on disk: its list of points, a run folder each, and the causes of those that failed.

OUT/sweep.json        the points in order: folder, label, swept values, seed
OUT/failed.json       folder -> cause, of the points that failed when they were last tried
OUT/HASH/trace.h5     a finished point; HASH names its settings as given
OUT/HASH/point.json   what was asked: values, seed, all settings as given
OUT/HASH/digest.json  the run in small, made from the trace
OUT/.running/         points under way, moved to their place when they are finished; those that were cut off are gone
                      on with from there
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from airfl.config import Settings, differences, to_json
from airfl.config.load import recorded
from airfl.config.part_keys import other_parts, with_parts_of
from airfl.errors import UserError
from airfl.fingerprint import code_fingerprint, own_parts
from airfl.input import LIST_BYTES, read_regular
from airfl.lock import locked
from airfl.output import (
    LOCK_NAME,
    OF_A_RUN,
    OF_ROWS,
    SWEEP_NAME,
    TRACE_NAME,
    check_can_be_folder,
    check_nothing_of,
    is_a_name,
    is_left_over,
    replace_text,
)
from airfl.own import check_no_link, is_folder, not_own
from airfl.synced import sync_path

SCHEMA = "airfl-sweep/1"
FAILED_NAME, POINT_NAME, RUNNING_NAME = "failed.json", "point.json", ".running"
SWEEP, TUNE = "sweep", "tune"
"""The commands that write such a folder."""
DIGITS_OF_A_HASH = 12


@dataclass(frozen=True)
class Entry:
    """A point in the list of a sweep.

    Attributes:
        folder: Name of its folder.
        label: Label of its row, "" without one.
        values: The swept values by dotted key.
        seed: Its seed.
    """

    folder: str
    label: str
    values: Mapping[str, Any]
    seed: int


@dataclass(frozen=True)
class Listing:
    """A sweep as its folder lists it.

    Attributes:
        root: The sweep's folder.
        entries: Its points.
        failed: Folder's name -> cause, of the points that failed.
        command: sweep or tune, "" where an older version has not said.
    """

    root: Path
    entries: tuple[Entry, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    def finished(self, entry: Entry) -> bool:
        """Whether the point's run is there, whole: it is moved to its place at the end."""
        return (self.root / entry.folder / TRACE_NAME).exists()

    def joined(self, more: Sequence[Entry]) -> Listing:
        """With these points after the others; one that is there already is there once, as it is asked for now."""
        asked = {entry.folder: entry for entry in more}
        kept = [entry for entry in self.entries if entry.folder not in asked]
        return replace(self, entries=(*kept, *asked.values()))


def read_listing(root: Path) -> Listing:
    """The sweep in this folder; UserError if there is none, or not one of this version."""
    found = _json(root / SWEEP_NAME)
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise UserError(f"{root / SWEEP_NAME}: not a sweep of schema {SCHEMA} (schema: {schema!r})")
    try:
        entries = tuple(_entry(**entry) for entry in found["points"])
        folders = [entry.folder for entry in entries]
        if not all(is_a_name(name) for name in folders):
            raise ValueError
        failed = _json(root / FAILED_NAME) if (root / FAILED_NAME).exists() else {}
        causes = {name: str(cause) for name, cause in failed.items() if name in folders}
        return Listing(root, entries, causes, str(found.get("command", "")))
    except (TypeError, ValueError, KeyError, AttributeError):
        raise UserError(
            f"{root / SWEEP_NAME}: its list of points is damaged; run the same sweep into another folder"
        ) from None


def _entry(folder: str, label: str, values: Mapping[str, Any], seed: int) -> Entry:
    """TypeError for what is no entry."""
    kinds = ((folder, str), (label, str), (values, dict), (seed, int))
    if not all(isinstance(value, kind) for value, kind in kinds):
        raise TypeError
    return Entry(folder, label, values, seed)


def open_folder(root: Path, command: str = SWEEP) -> Listing:
    """The sweep to go on with, or an empty one; UserError for a folder that holds something else."""
    check_can_be_folder(root)
    for name in (SWEEP_NAME, FAILED_NAME, RUNNING_NAME):
        check_no_link(root / name)
    if (root / SWEEP_NAME).exists():
        check_nothing_of(root, (*OF_A_RUN, *OF_ROWS))
        listing = read_listing(root)
        if listing.command not in ("", command):
            raise UserError(f"{root}: holds what `airfl {listing.command}` has written; choose another --out")
        check_running(root / RUNNING_NAME)
        return listing
    check_nothing_of(root, (*OF_A_RUN, *OF_ROWS))
    if root.exists() and not all(is_left_over(file, SWEEP_NAME) for file in root.iterdir()):
        raise UserError(f"{root}: holds files of something else and no {SWEEP_NAME}; choose another --out")
    return Listing(root)


def check_running(running: Path) -> None:
    """UserError where .running is no folder of airfl's: nothing is in it but folders that points have."""
    check_no_link(running)
    if not os.path.lexists(running):
        return
    if not is_folder(running):
        raise not_own(running)
    for folder in sorted(running.iterdir()):
        check_no_link(folder)
        if not (is_point(folder.name) and is_folder(folder)):
            raise not_own(folder)


def is_point(name: str) -> bool:
    """Whether a point's folder can have this name."""
    return re.fullmatch(rf"[0-9a-f]{{{DIGITS_OF_A_HASH}}}", name) is not None


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Only one sweep at a time writes into a folder, and nobody anything else; UserError while another does."""
    with locked(root / LOCK_NAME, f"{root}: another process is writing into it; wait for it, or choose another --out"):
        try:
            # Looked at once more: whoever makes another use of the folder looks for this lock after it has its own.
            check_nothing_of(root, (*OF_A_RUN, *OF_ROWS))
            yield
        finally:
            if not (root / SWEEP_NAME).exists():  # nothing was begun
                (root / LOCK_NAME).unlink(missing_ok=True)


def place(root: Path, name: str, asked: Mapping[str, Any]) -> None:
    """Move the finished run of .running to its place, with what was asked beside it: on disk, whole."""
    running, target = root / RUNNING_NAME / name, root / name
    replace_text(running / POINT_NAME, to_json(dict(asked), indent=1))
    for file in running.iterdir():
        sync_path(file)
    sync_path(running)
    running.rename(target)
    sync_path(root)


def check_place(root: Path, name: str, settings: Settings) -> None:
    """UserError if something else than a finished run of these settings is where this point belongs."""
    folder = root / name
    check_no_link(folder)
    if not folder.exists():
        return
    if not (folder / TRACE_NAME).exists():
        raise UserError(f"{folder}: is no finished run and stands where one belongs; move it away")
    for key, then, now in _differences(folder, settings):
        raise UserError(f"{folder}: was run with {key} = {then!r}, which is {now!r} now; choose another --out")


def check_same_sweep(listing: Listing, entry: Entry, settings: Settings, task: str = "") -> None:
    """UserError where this point and those that are there differ in more than what is swept: they would be averaged,
    or compared, as if they did not. task: the fingerprint of the user's own."""
    like = [one for one in listing.entries if one.label == entry.label and listing.finished(one)]
    for one in like[:1]:
        before = _json(listing.root / one.folder / POINT_NAME)
        if (before.get("task", "") if isinstance(before, dict) else "") != task:
            raise UserError(f"{listing.root}: holds points of another task than this one; choose another --out")
        swept = {*one.values, *entry.values}
        code = before.get("code", {}) if isinstance(before, dict) else {}
        now_code = code_of(settings)
        for key in sorted({*code, *now_code} - swept):
            if code.get(key) != now_code.get(key) and f"{key}.name" not in swept:
                raise UserError(f"{listing.root}: holds points with other code for {key}; choose another --out")
        for key, then, now in _differences(listing.root / one.folder, settings):
            below = any(other.startswith(f"{key}.") for other in swept)
            if key != "run.seed" and key not in swept and not below:
                raise UserError(
                    f"{listing.root}: holds points with {key} = {then!r}, here it is {now!r}; choose another --out, or "
                    f"sweep over {key}"
                )


def code_of(settings: Settings) -> dict[str, str]:
    """By dotted key, a fingerprint of the code of every part of the user's own."""
    return {key: code_fingerprint(part) for key, part in own_parts(settings).items()}


def _differences(folder: Path, settings: Settings) -> list[tuple[str, Any, Any]]:
    """(dotted key, value then, value now) of what a finished point was given otherwise; what is newer than it stands at
    its default."""
    try:
        tables = _json(folder / POINT_NAME)["settings"]
        others = list(other_parts(settings, tables))
        return [*others, *differences(recorded(with_parts_of(settings, tables), settings), settings)]
    except (TypeError, KeyError, ValueError):
        raise UserError(f"{folder / POINT_NAME}: does not say what was asked; choose another --out") from None


def write_listing(listing: Listing) -> None:
    """The list of points and causes, replaced whole."""
    replace_text(
        listing.root / SWEEP_NAME,
        to_json(
            {"schema": SCHEMA, "command": listing.command, "points": [asdict(entry) for entry in listing.entries]},
            indent=1,
        ),
    )
    if listing.failed or (listing.root / FAILED_NAME).exists():
        replace_text(listing.root / FAILED_NAME, to_json(dict(listing.failed), indent=1))


def _json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, LIST_BYTES))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; it is no folder of a sweep") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as JSON ({str(error).splitlines()[0]})") from None
