"""Finding the runs in folders, each of which is a run, a comparison, a sweep, or any folder of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from airfl.errors import UserError
from airfl.storage.addresses import address
from airfl.storage.input_files import LIST_BYTES, read_regular
from airfl.storage.output_files import BEGUN, HOLDS, ROWS_NAME, SWEEP_NAME, TRACE_NAME, is_a_name, is_only_begun


def find_runs(folders: Sequence[Path]) -> list[tuple[str, list[Path]]]:
    """Return the runs in the given folders as (label, run folders), with the seeds of a row together.

    Raises UserError for a folder that does not exist or holds no run.
    """
    groups: dict[str, list[Path]] = {}
    for folder in folders:
        check_folder(folder)
        runs = _runs_in(folder)
        if not runs:
            raise UserError(without_runs(folder))
        for label, run in runs:
            groups.setdefault(label, []).append(run)
    return list(groups.items())


def check_folder(folder: Path) -> None:
    """Raise UserError if the path is an address or a file, or does not exist."""
    if found := address(folder):
        raise UserError(f"{'://'.join(found)}: an address, not a folder; mount it, or copy it to a folder first")
    if folder.is_file():
        raise UserError(f"{folder}: a file, not a folder; give the folder of a run, a sweep or a comparison")
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; check the path")


def without_runs(folder: Path) -> str:
    """Return what to tell where a folder was given in which no run is found."""
    if is_only_begun(folder):
        return f"{folder}: {BEGUN}"
    if left := left_out(folder):
        return f"{folder}: holds no run ({TRACE_NAME}) itself; {'; '.join(left.values())}"
    return f"{folder}: holds no run ({TRACE_NAME}), nor do its subfolders; check the path"


def left_out(folder: Path) -> dict[str, str]:
    """Return what the subfolders hold that is no run and is not read with a folder of runs: subfolder -> a line."""
    if any((folder / name).exists() for name in (TRACE_NAME, ROWS_NAME, SWEEP_NAME)):
        return {}
    lines = {}
    for below in sorted(folder.iterdir()):
        for name in (SWEEP_NAME, ROWS_NAME):
            if (below / name).exists():
                lines[str(below)] = f"{below} ({HOLDS[name]}); give it as a folder of its own"
                break
        else:
            if is_only_begun(below):
                lines[str(below)] = f"{below}: {BEGUN}"
    return lines


def _runs_in(folder: Path) -> list[tuple[str, Path]]:
    """Return (label, run folder) of a run, of a comparison in the order of its rows, or of any folder of runs in the
    order of their names."""
    if (folder / TRACE_NAME).exists():
        return [(folder.name, folder)]
    if (folder / ROWS_NAME).exists():
        rows = read_rows(folder / ROWS_NAME)
        return [(label, path.parent) for label, row in rows for path in _in_order(row.glob(f"*/{TRACE_NAME}"))]
    return [(path.parent.name, path.parent) for path in _in_order(folder.glob(f"*/{TRACE_NAME}"))]


def read_rows(path: Path) -> list[tuple[str, Path]]:
    """Return (label, folder) of the rows in the list of a comparison; UserError if it is damaged."""
    try:
        rows = [(str(row["label"]), str(row["folder"])) for row in json.loads(read_regular(path, LIST_BYTES))]
        if not all(is_a_name(name) for _, name in rows):
            raise ValueError  # the folder of a row must be in this folder
        return [(label, path.parent / name) for label, name in rows]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise UserError(
            f"{path}: not a list of rows written by `airfl compare`; give the run folders instead"
        ) from None


def _in_order(paths: Iterable[Path]) -> list[Path]:
    """Sort the paths by folder name, with seed-2 before seed-10."""
    return sorted(paths, key=lambda path: (len(path.parent.name), path.parent.name))
