"""The runs below some folders, and those that differ in their seed only, together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.config.json_numbers import to_json
from airfl.errors import UserError
from airfl.input import as_path
from airfl.output import SWEEP_NAME
from airfl.results.digest import Digest, digest_of
from airfl.results.find import find_runs
from airfl.results.pool import RESOLVED, pool
from airfl.shown import brief
from airfl.sweeps.folder import Listing, read_listing

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """A run that was found.

    Attributes:
        folder: Where it is.
        label: Of its row, "" where there are no rows.
        values: Of the axes by dotted key, None for a setting that its scheme does not have.
        seed: run.seed.
        digest: The run in small: summary, settings, its course at the evaluated rounds.
        asked: `values` as the sweep gave them, whether they say anything or not.
        source: The folder that was named, in which the run was found.
    """

    folder: Path
    label: str
    values: Mapping[str, Any]
    seed: int
    digest: Digest
    asked: Mapping[str, Any] = field(default_factory=dict)
    source: Path | None = None

    def __repr__(self) -> str:
        what = {"label": self.label} if self.label else {}
        accuracy = self.digest.summary.test_accuracy
        return brief(self, **what, **self.values, seed=self.seed, test_accuracy=accuracy, folder=self.folder)


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only.

    Attributes:
        name: What tells them from the other groups.
        label: Of their row, "" where there are no rows.
        values: Of the axes by dotted key, None for a setting that the scheme does not have.
        runs: In the order of the seeds.
        repeats: Further runs of those seeds, which differ in nothing but a setting that they do not have.
    """

    name: str
    label: str
    values: Mapping[str, Any]
    runs: tuple[Result, ...]
    repeats: tuple[Result, ...] = ()

    def __repr__(self) -> str:
        return brief(self, name=self.name, runs=len(self.runs))

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
    """Runs that were collected: `groups` has those of one setting together, `frame()` is a table of all.

    Attributes:
        runs: In the order of the sweep or comparison.
        axes: The swept keys, and of several folders whatever else differs.
        failed: Point's folder -> why it failed.
        missing: Points that are neither finished nor failed.
        unreadable: Run's folder -> why it is left out of `runs`.
    """

    runs: tuple[Result, ...]
    axes: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        left = {"failed": len(self.failed), "missing": self.missing, "unreadable": len(self.unreadable)}
        told = {name: count for name, count in left.items() if count}
        return brief(self, runs=len(self.runs), groups=len(self.groups), axes=self.axes, **told)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """In the order in which they were asked for."""
        return self._grouped([run.values for run in self.runs])

    @cached_property
    def points(self) -> tuple[Group, ...]:
        """The groups by what was asked for, settings that a scheme does not have among it."""
        return self._grouped([run.asked for run in self.runs])

    @property
    def pooled(self) -> bool:
        """Whether the runs were found in several folders."""
        return len({run.source for run in self.runs}) > 1

    def _grouped(self, values: Sequence[Mapping[str, Any]]) -> tuple[Group, ...]:
        together: dict[str, list[tuple[Result, Mapping[str, Any]]]] = {}
        for run, own in zip(self.runs, values, strict=True):
            together.setdefault(to_json([run.label, [own.get(key) for key in self.axes]]), []).append((run, own))
        groups = []
        for found in together.values():
            run, own = found[0]
            seeds: dict[int, Result] = {}
            for one, _ in found:
                seeds.setdefault(one.seed, one)
            once = tuple(seeds[seed] for seed in sorted(seeds))
            repeats = tuple(one for one, _ in found if one is not seeds[one.seed])
            groups.append(Group(self._name(run, own), run.label, own, once, repeats))
        return tuple(groups)

    def complete(self) -> Results:
        """Of the runs that came to their end alone."""
        return replace(self, runs=tuple(run for run in self.runs if run.digest.summary.status == "complete"))

    def frame(self) -> pd.DataFrame:
        """One line a run, see `tidy.frame`."""
        from airfl.results.tidy import frame

        return frame(self)

    def _name(self, run: Result, values: Mapping[str, Any]) -> str:
        """The label and the values, as people write them."""
        known = [key for key in self.axes if values.get(key) is not None]
        texts = [f"{short(key, self.axes)} = {plain(values[key])}" for key in known]
        return ", ".join(filter(None, [run.label, *texts])) or run.digest.summary.scheme


def read_results(folders: str | Path | Sequence[str | Path]) -> Results:
    """The runs in these folders: sweeps, comparisons, single runs. UserError where there is none that can be read.

    A folder that is named twice counts once. Runs of several folders are told apart by everything in which they differ
    (see `airfl.results.pool.pool`); where two folders have the very same run, labels name the folders.
    """
    several: Iterable[object] = [folders] if isinstance(folders, str) or not isinstance(folders, Iterable) else folders
    found: list[Result] = []
    failed: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    missing = 0
    for folder in {folder.resolve(): folder for folder in map(as_path, several)}.values():
        if (folder / SWEEP_NAME).exists():
            listing = read_listing(folder)
            found += [replace(run, source=folder) for run in _of_sweep(listing, unreadable)]
            failed |= {str(folder / name): cause for name, cause in listing.failed.items()}
            missing += sum(not listing.finished(one) and one.folder not in listing.failed for one in listing.entries)
        else:
            for label, places in find_runs([folder]):
                found += [replace(run, source=folder) for at in places for run in _result(at, label, {}, unreadable)]
    runs, axes = pool(found, tuple(dict.fromkeys(key for run in found for key in run.asked)))
    if unreadable and not runs:
        raise UserError(next(iter(unreadable.values())))
    return Results(runs, axes, failed, missing, unreadable)


def read_some_results(folders: str | Path | Sequence[str | Path]) -> Results:
    """`read_results` for what cannot be drawn of nothing: UserError where no run is finished."""
    results = read_results(folders)
    if not results.runs:
        places = folders if isinstance(folders, str | Path) else ", ".join(map(str, folders))
        raise UserError(f"{places}: no point is finished yet; `airfl results` says which failed")
    return results


def short(key: str, among: Sequence[str]) -> str:
    """A dotted key without its section, where that leaves no doubt; scheme.name is the scheme."""
    last = _last(key)
    return last if [_last(other) for other in among].count(last) == 1 else key


def _last(key: str) -> str:
    """What is said of a dotted key when its section is left out: of a name the section."""
    section, _, last = key.rpartition(".")
    return section if last == "name" else last


def plain(value: Any) -> str:
    """A setting's value for people."""
    return value if isinstance(value, str) else to_json(value).replace('"', "")


def cell(value: Any) -> str:
    """A setting's value in a table: empty where there is none."""
    return "" if value is None else plain(value)


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
    for key, value in run.asked.items():
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
    return [Result(folder, label, values, digest.summary.seed, digest, asked=values)]
