"""The runs below some folders, and those that differ in their seed only, together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.config.differences import AUTOMATIC
from airfl.config.json_numbers import to_json
from airfl.errors import UserError
from airfl.output import SWEEP_NAME
from airfl.results.digest import Digest, digest_of
from airfl.results.find import find_runs
from airfl.sweeps.folder import Listing, read_listing

if TYPE_CHECKING:
    import pandas as pd


RESOLVED = {*AUTOMATIC, "local.measure", "power.policy", "power.threshold"}
"""Settings of which a trace says what the run took, not what it was given."""


@dataclass(frozen=True)
class Result:
    """A run: where it is, the label of its row or "", the swept values by dotted key, its seed, its digest."""

    folder: Path
    label: str
    values: Mapping[str, Any]
    seed: int
    digest: Digest


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only, in the order of the seeds; name: what tells them from the other groups."""

    name: str
    label: str
    values: Mapping[str, Any]
    runs: tuple[Result, ...]

    @property
    def scheme(self) -> str:
        """Of all of them."""
        return self.runs[0].digest.summary.scheme

    @property
    def link(self) -> str:
        """analog, digital or ideal."""
        return self.runs[0].digest.link


@dataclass(frozen=True)
class Results:
    """runs in the order of the sweep or comparison; axes: the swept keys; failed: point's folder -> cause; missing:
    points that are neither finished nor failed; unreadable: run's folder -> why it is left out of `runs`."""

    runs: tuple[Result, ...]
    axes: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """In the order in which they were asked for."""
        together: dict[str, list[Result]] = {}
        for run in self.runs:
            together.setdefault(to_json([run.label, [run.values.get(key) for key in self.axes]]), []).append(run)
        return tuple(
            Group(
                name=self._name(runs[0]),
                label=runs[0].label,
                values=runs[0].values,
                runs=tuple(sorted(runs, key=lambda run: run.seed)),
            )
            for runs in together.values()
        )

    def complete(self) -> Results:
        """Of the runs that came to their end alone."""
        return replace(self, runs=tuple(run for run in self.runs if run.digest.summary.status == "complete"))

    def frame(self) -> pd.DataFrame:
        """One line a run, see `tidy.frame`."""
        from airfl.results.tidy import frame

        return frame(self)

    def _name(self, run: Result) -> str:
        """The label and the values, as people write them."""
        values = [f"{short(key, self.axes)} = {plain(run.values.get(key))}" for key in self.axes]
        return ", ".join(filter(None, [run.label, *values])) or run.digest.summary.scheme


def read_results(folders: str | Path | Sequence[str | Path]) -> Results:
    """The runs in these folders: sweeps, comparisons, single runs. UserError where there is none that can be read.

    A folder that is named twice counts once. Where two folders have a run of the same label, values and seed, their
    labels name the folders.
    """
    several = [folders] if isinstance(folders, str | Path) else list(folders)
    found: list[tuple[Path, Result]] = []
    failed: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    missing = 0
    for folder in {folder.resolve(): folder for folder in map(Path, several)}.values():
        if (folder / SWEEP_NAME).exists():
            listing = read_listing(folder)
            found += [(folder, run) for run in _of_sweep(listing, unreadable)]
            failed |= {str(folder / name): cause for name, cause in listing.failed.items()}
            missing += sum(not listing.finished(one) and one.folder not in listing.failed for one in listing.entries)
        else:
            for label, places in find_runs([folder]):
                found += [(folder, run) for place in places for run in _result(place, label, {}, unreadable)]
    axes = tuple(dict.fromkeys(key for _, run in found for key in run.values))
    runs = _told_apart([(folder, _complete(run, axes)) for folder, run in found])
    if unreadable and not runs:
        raise UserError(next(iter(unreadable.values())))
    return Results(tuple(runs), axes, failed, missing, unreadable)


def read_some_results(folders: str | Path | Sequence[str | Path]) -> Results:
    """`read_results` for what cannot be drawn of nothing: UserError where no run is finished."""
    results = read_results(folders)
    if not results.runs:
        places = folders if isinstance(folders, str | Path) else ", ".join(map(str, folders))
        raise UserError(f"{places}: no point is finished yet; `airfl results` says which failed")
    return results


def _told_apart(found: Sequence[tuple[Path, Result]]) -> list[Result]:
    """The runs, labelled by their folders too where they would else be averaged as if they were two seeds."""

    def which(run: Result) -> str:
        return to_json([run.label, dict(run.values)])

    seeds = Counter((which(run), run.seed) for _, run in found)
    twice = {group for (group, _), count in seeds.items() if count > 1}
    runs = []
    for folder, run in found:
        if which(run) in twice:
            own = run.label in ("", folder.name)
            run = replace(run, label=str(folder) if own else f"{folder}: {run.label}")
        runs.append(run)
    return runs


def short(key: str, among: Sequence[str]) -> str:
    """A dotted key without its section, where that leaves no doubt."""
    last = key.rpartition(".")[2]
    return last if [other.rpartition(".")[2] for other in among].count(last) == 1 and last != "name" else key


def plain(value: Any) -> str:
    """A setting's value for people."""
    return value if isinstance(value, str) else to_json(value).replace('"', "")


def number_of(value: Any) -> float:
    """A setting's value as a number; nan if it is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _of_sweep(listing: Listing, unreadable: dict[str, str]) -> list[Result]:
    found = []
    for entry in listing.entries:
        if listing.finished(entry):
            for run in _result(listing.root / entry.folder, entry.label, entry.values, unreadable):
                _check_values(listing, run)
                found.append(run)
    return found


def _check_values(listing: Listing, run: Result) -> None:
    """UserError where the list says of a run what its own trace does not: it would stand in the wrong line."""
    for key, value in run.values.items():
        ran = run.digest.setting(key)
        if value != ran and key not in RESOLVED and value not in (None, "auto"):
            raise UserError(
                f"{listing.root / SWEEP_NAME}: says {key} = {plain(value)} of {run.folder.name}, whose trace says "
                f"{plain(ran)}; run the same sweep again in another folder, or name the run folders instead"
            )


def _result(folder: Path, label: str, values: Mapping[str, Any], unreadable: dict[str, str]) -> list[Result]:
    """The run; none where it cannot be read, which is entered in `unreadable` and is no fault of the others."""
    try:
        digest = digest_of(folder)
    except UserError as error:
        unreadable[str(folder)] = str(error)
        return []
    return [Result(folder, label, values, digest.summary.seed, digest)]


def _complete(run: Result, axes: Sequence[str]) -> Result:
    """With the values of keys that only other runs were swept over, from its own settings."""
    if all(key in run.values for key in axes):
        return run
    return replace(run, values={key: run.values.get(key, run.digest.setting(key)) for key in axes})
