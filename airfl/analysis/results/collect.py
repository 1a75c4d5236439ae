"""Collecting the runs in folders, and grouping those that differ only in their seed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.digest import digest_of
from airfl.analysis.results.find import find_runs, left_out
from airfl.analysis.results.pool import RESOLVED, pool
from airfl.analysis.results.result import Result, Results, plain
from airfl.analysis.results.sweep_folder import Listing, read_listing
from airfl.errors import UserError
from airfl.storage.input_files import as_path
from airfl.storage.output_files import ROWS_NAME, SWEEP_NAME, TRACE_NAME
from airfl.storage.shards import read_shards

if TYPE_CHECKING:
    pass


def read_results(folders: str | Path | Sequence[str | Path]) -> Results:
    """Read the runs in these folders, which may be sweeps, comparisons or single runs.

    A folder that is given twice counts once. Runs of several folders are distinguished by all settings in which they
    differ (see `airfl.analysis.results.pool.pool`). Where two folders hold the same run, labels include the folders.

    Raises UserError where no run can be read.
    """
    several: Iterable[object] = [folders] if isinstance(folders, str) or not isinstance(folders, Iterable) else folders
    collected: list[Result] = []
    failed: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    missing = 0
    running: dict[str, str] = {}
    for folder in {folder.resolve(): folder for folder in map(as_path, several)}.values():
        if (folder / SWEEP_NAME).exists():
            listing = read_listing(folder)
            collected += [replace(run, source=folder) for run in _of_sweep(listing, unreadable)]
            failed |= {str(folder / name): cause for name, cause in listing.failed.items()}
            missing += sum(not listing.finished(one) and one.folder not in listing.failed for one in listing.entries)
            running |= _claimed(folder, {one.folder for one in listing.entries if not listing.finished(one)})
        else:
            claimed = _claimed(folder) if (folder / ROWS_NAME).exists() else {}
            running |= claimed
            if claimed and not any(folder.glob(f"*/*/{TRACE_NAME}")):
                continue
            for label, places in find_runs([folder]):
                collected += [
                    replace(run, source=folder) for at in places for run in _result(at, label, {}, unreadable)
                ]
            unreadable |= left_out(folder)
    runs, axes = pool(collected, tuple(dict.fromkeys(key for run in collected for key in run.asked)))
    if unreadable and not runs:
        raise UserError(next(iter(unreadable.values())))
    return Results(runs, axes, failed, missing, unreadable, running)


def read_some_results(folders: str | Path | Sequence[str | Path]) -> Results:
    """Read results as `read_results` does, and raise UserError where no run is finished."""
    results = read_results(folders)
    if not results.runs:
        places = folders if isinstance(folders, str | Path) else ", ".join(map(str, folders))
        raise UserError(f"{places}: no point is finished yet; run `airfl results` to see which failed")
    return results


def _claimed(root: Path, points: Collection[str] | None = None) -> dict[str, str]:
    """Return the points that other processes run: a readable name -> the process. points: the points that count."""
    found = read_shards(root).running
    return {f"{root}: {one.what}": one.owner for name, one in found.items() if points is None or name in points}


def _of_sweep(listing: Listing, unreadable: dict[str, str]) -> list[Result]:
    runs = []
    for entry in listing.entries:
        if listing.finished(entry):
            for run in _result(listing.root / entry.folder, entry.label, entry.values, unreadable):
                _check_values(listing, run)
                runs.append(run)
    return runs


def _check_values(listing: Listing, run: Result) -> None:
    """Raise UserError where the sweep's list and a run's trace have different values, as the run would be listed under
    the wrong ones."""
    for key, value in run.asked.items():
        ran = run.digest.setting(key)
        if value != ran and key not in RESOLVED and value not in (None, "auto"):
            raise UserError(
                f"{listing.root / SWEEP_NAME}: {key} of {run.folder.name} is {plain(value)}, but {plain(ran)} in its "
                "trace; run the sweep again in another folder, or give the run folders instead"
            )


def _result(folder: Path, label: str, values: Mapping[str, Any], unreadable: dict[str, str]) -> list[Result]:
    """Return the run, or nothing where it cannot be read, which is noted in `unreadable`."""
    try:
        digest = digest_of(folder)
    except UserError as error:
        unreadable[str(folder)] = str(error)
        return []
    return [Result(folder, label, values, digest.summary.seed, digest, asked=values)]
