"""The folder OUT/.shards of processes that share the points of a sweep, or the runs of a comparison.

OUT/.shards/process-TOKEN     the claim of a process to write into OUT, with what it works on
OUT/.shards/POINT.claim       the claim of a process to a point; POINT are 12 hexadecimal digits
OUT/.shards/POINT.failed      why a point failed
OUT/.shards/POINT/ATTEMPT/    an attempt at a point, which becomes its folder when it is finished

The folder is there while processes run, and if points are left that none runs any more.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from airfl.errors import UserError
from airfl.storage.claim import EXPIRY_S, Seen, look, take_away, time_of
from airfl.storage.input_files import read_regular
from airfl.storage.output_files import SHARDS_NAME, replace_text
from airfl.storage.own_files import check_no_link, is_file, is_folder, not_own

POINT, TOKEN = r"[0-9a-f]{12}", r"[0-9a-f]+"
FILE = rf"process-{TOKEN}|{POINT}\.(?:claim|failed)"
TEMPORARY = rf"\.(?:{FILE}|time)(?:\.[0-9a-f]+)+"
CAUSE_BYTES = 1 << 20


@dataclass(frozen=True)
class Shards:
    """What processes that share a folder do, and have left.

    Attributes:
        processes: The processes that have not ended.
        running: Point -> its claim, for the points that they run.
        failed: Point -> why it failed.
        attempts: The points at which there are attempts.
    """

    processes: tuple[Seen, ...] = ()
    running: Mapping[str, Seen] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    attempts: tuple[str, ...] = ()


def claim_of(root: Path, point: str) -> Path:
    """Return the file of the claim to a point."""
    return root / SHARDS_NAME / f"{point}.claim"


def failure_file(root: Path, point: str) -> Path:
    """Return the file with the cause of a failure."""
    return root / SHARDS_NAME / f"{point}.failed"


def read_shards(root: Path) -> Shards:
    """Return what is in OUT/.shards, while processes may be writing it. Claims that have ended are left out.

    Raises UserError if anything in it was not written by airfl.
    """
    folder = root / SHARDS_NAME
    check_no_link(folder)
    if not os.path.lexists(folder):
        return Shards()
    if not is_folder(folder):
        raise not_own(folder)
    now = time_of(folder)
    processes, running, failed, attempts = [], {}, {}, []
    for path in _entries(folder):
        check_no_link(path)
        if re.fullmatch(POINT, path.name) and is_folder(path):
            attempts.append(path.name)
            _check_attempts(path)
            continue
        if not os.path.lexists(path) or (is_file(path) and re.fullmatch(TEMPORARY, path.name)):
            continue
        if not (re.fullmatch(FILE, path.name) and is_file(path)):
            if not os.path.lexists(path):
                continue
            raise not_own(path)
        if path.suffix == ".failed":
            with suppress(FileNotFoundError):
                failed[path.stem] = _cause(path)
            continue
        seen = look(path)
        if seen is None or (now is not None and seen.has_ended(now)):
            continue
        if path.suffix == ".claim":
            running[path.stem] = seen
        else:
            processes.append(seen)
    return Shards(tuple(processes), running, failed, tuple(attempts))


def check_no_shards(root: Path) -> None:
    """Raise UserError if processes share this folder, or have done so until a moment ago.

    A process that begins writes its claim before it looks for the lock of the folder, and the holder of the lock looks
    for claims when it has the lock. So not both can go on.
    """
    for one in read_shards(root).processes[:1]:
        raise UserError(
            f"{root}: {one.owner} writes into it with --shard {one.what}; give --shard too, or wait for it (without a "
            f"sign of life, it has ended after {EXPIRY_S:.0f} s)"
        )


def write_failure(root: Path, point: str, cause: str) -> None:
    """Record why a point failed."""
    replace_text(failure_file(root, point), json.dumps(cause))


def remove_failures(root: Path, points: Iterable[str]) -> None:
    """Remove the causes of these points."""
    for point in points:
        if is_file(failure_file(root, point)):
            failure_file(root, point).unlink(missing_ok=True)


def remove_ended(root: Path, all_claims: bool = False) -> None:
    """Remove claims that have ended, and temporary files of processes that have; then the folder, if it is empty.

    all_claims: also claims that have not ended yet, since no process shares the folder any more.
    """
    folder = root / SHARDS_NAME
    now = time_of(folder) if is_folder(folder) else None
    if now is None:
        return
    for path in _entries(folder):
        if not is_file(path):
            continue
        if re.fullmatch(rf"process-{TOKEN}|{POINT}\.claim", path.name):
            seen = look(path)
            if seen and (all_claims or seen.has_ended(now)):
                take_away(path, seen)
        elif re.fullmatch(TEMPORARY, path.name):
            with suppress(FileNotFoundError):
                if all_claims or now - path.stat().st_mtime_ns > EXPIRY_S * 1e9:
                    path.unlink()
    with suppress(OSError):
        folder.rmdir()


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder, nothing if the last process has removed it at this moment."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _check_attempts(point: Path) -> None:
    with suppress(FileNotFoundError):
        for attempt in point.iterdir():
            check_no_link(attempt)
            if os.path.lexists(attempt) and not (re.fullmatch(POINT, attempt.name) and is_folder(attempt)):
                raise not_own(attempt)


def _cause(path: Path) -> str:
    try:
        return str(json.loads(read_regular(path, CAUSE_BYTES)))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError):
        return "the cause cannot be read"
