"""Comparisons: runs of several settings on the same devices, fading and noise, with one row per setting.

airfl.compare("demo", schemes=["pfels", "fedavg"], seeds=3, out="runs/two")
airfl.compare("demo", rows={"p = 0.1": {"scheme.ratio": 0.1}, "p = 0.3": {"scheme.ratio": 0.3}}, out="runs/ratios")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.analysis.results.row_result import RowResult
from airfl.config import Config, Overrides, Row, Settings, differences, load_rows
from airfl.config.arguments import public
from airfl.config.given import changes_of, task_of
from airfl.core.callbacks.callback import Callback
from airfl.core.callbacks.dispatch import check_callbacks
from airfl.core.device import find_device
from airfl.core.progress import Planned, asked_progress, planned
from airfl.core.record import Record
from airfl.core.run_files import Progress
from airfl.core.summary import summary_of
from airfl.errors import DivergedError, UserError
from airfl.learning.chosen_task import load_data, with_task
from airfl.learning.task import build_task
from airfl.learning.tasks.datasets import data_folders
from airfl.runtime.callable import calls
from airfl.runtime.streams import Streams
from airfl.simulation import failure_of, is_complete, run
from airfl.study.attempts import take_over
from airfl.study.rows import check_comparison, exclusive, row_folders, write_rows
from airfl.study.sharded_comparison import PlannedRun, run_shared
from airfl.study.shards import Shard, shard_of

if TYPE_CHECKING:
    from airfl.learning.own_task import Task

LabelledProgress = Callable[[str, int, int, Record], None]
"""As `Progress` of a run, with the run's label as first argument."""


@dataclass(frozen=True)
class SeededRun:
    """One run of a row.

    Attributes:
        what: Its label in progress reports.
        settings: Its settings, including the seed.
    """

    what: str
    settings: Settings


def runs_of(row: Row, seeds: int) -> list[SeededRun]:
    """Return the runs of a row, with consecutive seeds that start at the row's own."""
    first = row.settings.run.seed
    return [
        SeededRun(row.label if seeds == 1 else f"{row.label}, seed {seed}", row.settings.resolved(run={"seed": seed}))
        for seed in range(first, first + seeds)
    ]


def plan_of(rows: Sequence[Row], seeds: int) -> list[Planned]:
    """Return all runs of a comparison, for overall progress."""
    return [planned(one.what, one.settings, row.label) for row in rows for one in runs_of(row, seeds)]


@public
def compare(
    config: Config | Sequence[Row],
    seeds: int = 1,
    out: str | Path | None = None,
    device: str = "cpu",
    progress: LabelledProgress | bool | None = None,
    data_dir: str | Path | None = None,
    *,
    rows: Mapping[str, Overrides] | None = None,
    schemes: Sequence[str] = (),
    overrides: Overrides = (),
    resume: bool = False,
    finish_rounds: bool = False,
    callbacks: Sequence[Callback] = (),
    task: Task | None = None,
    shard: str | Shard | None = None,
) -> list[RowResult]:
    """Run every row on the same devices, fading and noise, and write the runs to out/ROW/seed-S.

    A run that diverges does not stop the others. A callback that raises stops the comparison.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables: see
            `airfl.load_settings`; or a list of complete rows, as returned by `airfl.config.load_rows`.
        seeds: Number of runs per row, with consecutive seeds that start at the row's own.
        out: A new folder, or with `resume` the folder of a comparison. Required.
        device: "cpu", "cuda" or "cuda:1".
        progress: True shows a progress bar on a terminal or in a notebook, else plain lines. A function is called
            after every round with the run's label, rounds done, total rounds, and the round's record.
        data_dir: As in `airfl.run`.
        rows: Label -> overrides of that row; without it and without `schemes`, the file's [[compare]] rows.
        schemes: Names of schemes, one row each.
        overrides: Overrides for all rows; those of a row take precedence.
        resume: Continue the comparison in `out`.
        finish_rounds: As in `airfl.run`.
        callbacks: Callbacks of every run, each with a new copy (`Callback.for_run`).
        task: As in `airfl.run`.
        shard: "2/10" for the second of ten processes, also of several machines, that share the folder `out`: each
            claims one run after the other, and returns when every run has ended or is run by another process. Rows then
            have the runs that have ended. Runs of earlier processes are continued, as with `resume`.

    Raises UserError for invalid settings or arguments, and if `out` already holds something else.
    """
    if out is None:
        raise UserError("compare: out is missing; give a new folder for the runs, for instance out='runs/compared'")
    check_callbacks(callbacks)
    loaded = _rows(config, overrides, rows, schemes)
    of_rows = [key for row in loaded for key, *_ in differences(loaded[0].settings, row.settings)]
    task = task_of(config, task, [*changes_of(overrides), *of_rows])
    one_of_several = shard_of(shard)
    with asked_progress(progress, lambda shown: shown.labelled_reporter(), plan_of(loaded, seeds)) as report:
        where = _Where(Path(out), device, data_dir, finish_rounds, callbacks, task)
        return _compare(loaded, seeds, where, report, resume, one_of_several)


def _rows(
    config: Config | Sequence[Row], overrides: Overrides, rows: Mapping[str, Overrides] | None, schemes: Sequence[str]
) -> Sequence[Row]:
    if rows is not None and schemes:
        raise UserError("compare: rows and schemes cannot be combined; give one of them")
    if isinstance(config, list | tuple) and config and all(isinstance(row, Row) for row in config):
        if rows is not None or schemes or overrides:
            raise UserError("compare: a list of rows cannot be combined with overrides, rows or schemes; omit them")
        return config
    if isinstance(schemes, str):
        raise UserError(f"compare: schemes must be a list of names, for instance ['pfels', 'fedavg'], got {schemes!r}")
    return load_rows(config, overrides, schemes, rows)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Where:
    """Arguments of `compare` that are the same for all runs; `out` is the folder of the comparison."""

    out: Path
    device: str
    data_dir: str | Path | None
    finish_rounds: bool
    callbacks: Sequence[Callback]
    task: Task | None

    def run(self, one: PlannedRun, folder: Path, resume: bool, progress: LabelledProgress | None) -> None:
        run(
            one.settings,
            folder,
            self.device,
            _labelled(progress, one.what),
            self.data_dir,
            resume=resume,
            finish_rounds=self.finish_rounds,
            callbacks=[callback.for_run(one.what) for callback in self.callbacks],
            task=self.task,
        )


def _compare(
    rows: Sequence[Row],
    seeds: int,
    where: _Where,
    progress: LabelledProgress | None,
    resume: bool,
    shard: Shard | None,
) -> list[RowResult]:
    labels, out, task = [row.label for row in rows], where.out, where.task
    folders = row_folders(labels)
    check_comparison(out, labels, resume or shard is not None)
    find_device(where.device)
    rows = [replace(row, settings=with_task(row.settings, task)) for row in rows]
    check_tasks(rows, data_folders(where.data_dir), task)
    planned_runs = [_runs_in(out / name, row, seeds) for row, name in zip(rows, folders, strict=True)]
    every = [one for runs in planned_runs for one in runs]
    failures: dict[Path, str | None] = {}
    if shard is not None:
        for one in every:
            if one.has_ended and failure_of(one.folder) is None:
                is_complete(one.folder, one.settings, task)  # raises UserError for a run of other settings
        run_shared(every, out, labels, shard, lambda one, at, again: where.run(one, at, again, progress))
        failures = {one.folder: failure_of(one.folder) for one in every if one.has_ended}
    else:
        with exclusive(out, labels, resume):
            write_rows(out, labels)
            by_key = {one.key: one.folder for one in every}
            take_over(out, lambda key: by_key.get(key) if resume else None)
            for one in every:
                failure = failure_of(one.folder) if resume else None
                if failure is None and not (resume and is_complete(one.folder, one.settings, task)):
                    try:
                        where.run(one, one.folder, resume, progress)
                    except DivergedError as error:
                        failure = str(error)
                failures[one.folder] = failure
    return [_row_result(row.label, runs, failures) for row, runs in zip(rows, planned_runs, strict=True)]


def _runs_in(folder: Path, row: Row, seeds: int) -> list[PlannedRun]:
    return [PlannedRun(one.what, one.settings, folder / f"seed-{one.settings.run.seed}") for one in runs_of(row, seeds)]


def _row_result(label: str, runs: Sequence[PlannedRun], failures: Mapping[Path, str | None]) -> RowResult:
    """Return the result of a row from those of its runs that have ended, each with its failure."""
    ended = [one for one in runs if one.folder in failures]
    failed = tuple(f"{one.what}: {failures[one.folder]}" for one in ended if failures[one.folder])
    places = tuple(one.folder for one in ended)
    return RowResult(label, places, tuple(map(summary_of, places)), failed)


def check_tasks(rows: Sequence[Row], folders: Sequence[Path], task: Task | None = None) -> None:
    """Check that the data of every row can be loaded and partitioned before the first row is run. Raises UserError if
    not."""
    checked = []
    for row in rows:
        needs = (row.settings.task, row.settings.run.devices)
        if needs not in checked:
            checked.append(needs)
            raw = load_data(row.settings.task, folders, task)
            build_task(row.settings, raw, Streams(row.settings.run.seed), task)


def _labelled(progress: LabelledProgress | None, what: str) -> Progress | None:
    if progress is None:
        return None
    return lambda done, rounds, record: progress(what, done, rounds, record)


calls(__name__, "airfl.study.compare:compare")
