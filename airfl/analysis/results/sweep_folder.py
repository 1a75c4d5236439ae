"""A sweep on disk: its list of points, a run folder for each, and the errors of those that failed.

OUT/sweep.json        the points in order: folder, label, swept values, seed
OUT/failed.json       folder -> error, for the points that failed in their last attempt
OUT/HASH/trace.h5     a finished point; HASH is a hash of its settings as given
OUT/HASH/point.json   the request: values, seed, all settings as given
OUT/HASH/digest.json  a summary of the run, made from the trace
OUT/.running/         points in progress, which are moved to OUT when they are finished, and resumed if interrupted
OUT/.shards/          the same of processes that share the sweep; see airfl.storage.shards
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
from airfl.storage.atomic_io import sync_path
from airfl.storage.fingerprint import code_fingerprint, own_parts
from airfl.storage.input_files import LIST_BYTES, read_regular
from airfl.storage.lock import locked
from airfl.storage.output_files import (
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
from airfl.storage.own_files import check_no_link, is_folder, not_own
from airfl.storage.shards import check_no_shards, read_shards

SCHEMA = "airfl-sweep/1"
FAILED_NAME, POINT_NAME, RUNNING_NAME = "failed.json", "point.json", ".running"
SWEEP, TUNE = "sweep", "tune"
"""The commands that write a sweep folder."""
DIGITS_OF_A_HASH = 12


@dataclass(frozen=True)
class Entry:
    """A point in the list of a sweep.

    Attributes:
        folder: Name of its folder.
        label: Label of its row; "" without rows.
        values: The swept values by dotted key.
        seed: Its seed.
    """

    folder: str
    label: str
    values: Mapping[str, Any]
    seed: int


@dataclass(frozen=True)
class Listing:
    """The list of a sweep in its folder.

    Attributes:
        root: The sweep's folder.
        entries: Its points.
        failed: Name of the folder -> error, for the points that failed.
        command: sweep or tune; "" if written by an older version, which did not record it.
    """

    root: Path
    entries: tuple[Entry, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    def finished(self, entry: Entry) -> bool:
        """Whether the point's run is complete, as it is moved to its folder only at the end."""
        return self.has(entry.folder)

    def has(self, name: str) -> bool:
        """Whether the run of the point with this folder is complete."""
        return (self.root / name / TRACE_NAME).exists()

    def joined(self, more: Sequence[Entry]) -> Listing:
        """Return a listing with these points added at the end, replacing entries of the same folder."""
        added = {entry.folder: entry for entry in more}
        others = [entry for entry in self.entries if entry.folder not in added]
        return replace(self, entries=(*others, *added.values()))


def read_listing(root: Path) -> Listing:
    """Read the list of the sweep in a folder; UserError if there is none, or it is of another version."""
    content = _json(root / SWEEP_NAME)
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise UserError(f"{root / SWEEP_NAME}: not a sweep of schema {SCHEMA} (schema: {schema!r})")
    try:
        entries = tuple(_entry(**entry) for entry in content["points"])
        folders = [entry.folder for entry in entries]
        if not all(is_a_name(name) for name in folders):
            raise ValueError
        of_shards = read_shards(root).failed  # read first, as the last shard moves them into the other file
        failed = _json(root / FAILED_NAME) if (root / FAILED_NAME).exists() else {}
        causes = {name: str(cause) for name, cause in {**failed, **of_shards}.items() if name in folders}
        listing = Listing(root, entries, causes, str(content.get("command", "")))
        return replace(listing, failed={name: cause for name, cause in causes.items() if not listing.has(name)})
    except (TypeError, ValueError, KeyError, AttributeError):
        raise UserError(
            f"{root / SWEEP_NAME}: the list of points is damaged; run the sweep again in another folder"
        ) from None


def _entry(folder: str, label: str, values: Mapping[str, Any], seed: int) -> Entry:
    """Return an entry; TypeError if a value has the wrong type."""
    kinds = ((folder, str), (label, str), (values, dict), (seed, int))
    if not all(isinstance(value, kind) for value, kind in kinds):
        raise TypeError
    return Entry(folder, label, values, seed)


def open_folder(root: Path, command: str = SWEEP) -> Listing:
    """Return the list of a sweep to resume, or an empty one; UserError if the folder has other contents."""
    check_can_be_folder(root)
    for name in (SWEEP_NAME, FAILED_NAME, RUNNING_NAME):
        check_no_link(root / name)
    if (root / SWEEP_NAME).exists():
        check_nothing_of(root, (*OF_A_RUN, *OF_ROWS))
        listing = read_listing(root)
        if listing.command not in ("", command):
            raise UserError(f"{root}: contains the output of `airfl {listing.command}`; choose another --out")
        check_running(root / RUNNING_NAME)
        return listing
    read_shards(root)  # refuses what others have put there
    check_nothing_of(root, (*OF_A_RUN, *OF_ROWS))
    if root.exists() and not all(is_left_over(file, SWEEP_NAME) for file in root.iterdir()):
        if (root / SWEEP_NAME).exists():  # another shard has written it since
            return open_folder(root, command)
        raise UserError(f"{root}: contains other files and no {SWEEP_NAME}; choose another --out")
    return Listing(root)


def check_running(running: Path) -> None:
    """Raise UserError if .running is not a folder, or contains anything but folders of points."""
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
    """Whether a name is that of a point's folder."""
    return re.fullmatch(rf"[0-9a-f]{{{DIGITS_OF_A_HASH}}}", name) is not None


@contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Lock the folder for this sweep during the block; UserError if another process is writing there."""
    with locked(root / LOCK_NAME, f"{root}: another process is writing into it; wait for it, or choose another --out"):
        try:
            # Checked again under the lock: a process that uses the folder for something else checks for this lock
            # after it has taken its own.
            check_nothing_of(root, (*OF_A_RUN, *OF_ROWS))
            check_no_shards(root)
            yield
        finally:
            if not (root / SWEEP_NAME).exists():  # the sweep has not begun
                (root / LOCK_NAME).unlink(missing_ok=True)


def place(root: Path, name: str, request: Mapping[str, Any], made: Path | None = None) -> bool:
    """Move a finished run to its folder, together with its request, and flush it to disk.

    Args:
        root: The sweep's folder.
        name: Name of the point's folder.
        request: Its request.
        made: The folder of the run; by default that in .running.

    Returns False, and moves nothing, if the run is there already: another process has finished it too.
    """
    made, target = made or root / RUNNING_NAME / name, root / name
    replace_text(made / POINT_NAME, to_json(dict(request), indent=1))
    for file in made.iterdir():
        sync_path(file)
    sync_path(made)
    try:
        made.rename(target)
    except OSError:
        if not (target / TRACE_NAME).exists():
            raise
        return False
    sync_path(root)
    return True


def check_place(root: Path, name: str, settings: Settings) -> None:
    """Raise UserError if the folder of a point contains anything but a finished run of these settings."""
    folder = root / name
    check_no_link(folder)
    if not folder.exists():
        return
    if not (folder / TRACE_NAME).exists():
        raise UserError(f"{folder}: not a finished run, but in the place of one; move it away")
    for key, then, now in _differences(folder, settings):
        raise UserError(f"{folder}: was run with {key} = {then!r}, here it is {now!r}; choose another --out")


def check_same_sweep(listing: Listing, entry: Entry, settings: Settings, task: str = "") -> None:
    """Raise UserError if this point and finished ones differ in more than the swept keys.

    Results would be averaged or compared as if they did not differ. task: the fingerprint of a user-defined task.
    """
    like = [one for one in listing.entries if one.label == entry.label and listing.finished(one)]
    for one in like[:1]:
        before = _json(listing.root / one.folder / POINT_NAME)
        if (before.get("task", "") if isinstance(before, dict) else "") != task:
            raise UserError(f"{listing.root}: contains points of another task; choose another --out")
        swept = {*one.values, *entry.values}
        code = before.get("code", {}) if isinstance(before, dict) else {}
        now_code = code_of(settings)
        for key in sorted({*code, *now_code} - swept):
            if code.get(key) != now_code.get(key) and f"{key}.name" not in swept:
                raise UserError(f"{listing.root}: contains points with other code for {key}; choose another --out")
        for key, then, now in _differences(listing.root / one.folder, settings):
            below = any(other.startswith(f"{key}.") for other in swept)
            if key != "run.seed" and key not in swept and not below:
                raise UserError(
                    f"{listing.root}: contains points with {key} = {then!r}, here it is {now!r}; choose another --out, "
                    f"or sweep over {key}"
                )


def check_same_data(listing: Listing, data: Mapping[str, str]) -> None:
    """Raise UserError if finished points have read other data under the same name.

    Points that earlier versions have finished did not record their data, and are not checked.

    Args:
        listing: The list of the sweep.
        data: Checksums of the data sets and recorded files of the points that are to run, by name.
    """
    for one in listing.entries:
        if not listing.finished(one):
            continue
        before = _json(listing.root / one.folder / POINT_NAME)
        read = before.get("data") if isinstance(before, dict) else None
        for name, checksum in data.items():
            if isinstance(read, dict) and read.get(name, checksum) != checksum:
                raise UserError(
                    f"{listing.root}: {name} has changed since {one.folder} was run; put it back as it was (the folder "
                    "of a data set is given by --data-dir), or choose another --out"
                )


def code_of(settings: Settings) -> dict[str, str]:
    """Return a fingerprint of the code of every user-defined part, by dotted key."""
    return {key: code_fingerprint(part) for key, part in own_parts(settings).items()}


def _differences(folder: Path, settings: Settings) -> list[tuple[str, Any, Any]]:
    """Return (dotted key, value then, value now) for the settings in which a finished point differs.

    Settings that were added to airfl later have their default then.
    """
    try:
        tables = _json(folder / POINT_NAME)["settings"]
        others = list(other_parts(settings, tables))
        return [*others, *differences(recorded(with_parts_of(settings, tables), settings), settings)]
    except (TypeError, KeyError, ValueError, AttributeError):
        raise UserError(f"{folder / POINT_NAME}: the settings cannot be read; choose another --out") from None


def write_listing(listing: Listing) -> None:
    """Replace the files with the list of points and the errors."""
    write_points(listing)
    write_failed(listing)


def write_points(listing: Listing) -> None:
    """Replace the file with the list of points."""
    replace_text(
        listing.root / SWEEP_NAME,
        to_json(
            {"schema": SCHEMA, "command": listing.command, "points": [asdict(entry) for entry in listing.entries]},
            indent=1,
        ),
    )


def write_failed(listing: Listing) -> None:
    """Replace the file with the errors."""
    if listing.failed or (listing.root / FAILED_NAME).exists():
        replace_text(listing.root / FAILED_NAME, to_json(dict(listing.failed), indent=1))


def _json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, LIST_BYTES))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; give the folder of a sweep") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as JSON ({str(error).splitlines()[0]})") from None
