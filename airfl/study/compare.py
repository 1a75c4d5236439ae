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
from airfl.study.rows import check_comparison, exclusive, row_folders, write_rows

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

    Raises UserError for invalid settings or arguments, and if `out` already holds something else.
    """
    if out is None:
        raise UserError("compare: out is missing; give a new folder for the runs, for instance out='runs/compared'")
    check_callbacks(callbacks)
    loaded = _rows(config, overrides, rows, schemes)
    of_rows = [key for row in loaded for key, *_ in differences(loaded[0].settings, row.settings)]
    task = task_of(config, task, [*changes_of(overrides), *of_rows])
    with asked_progress(progress, lambda shown: shown.labelled_reporter(), plan_of(loaded, seeds)) as report:
        return _compare(loaded, seeds, Path(out), device, report, data_dir, resume, finish_rounds, callbacks, task)


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


def _compare(
    rows: Sequence[Row],
    seeds: int,
    out: Path,
    device: str,
    progress: LabelledProgress | None,
    data_dir: str | Path | None,
    resume: bool,
    finish_rounds: bool,
    callbacks: Sequence[Callback],
    task: Task | None,
) -> list[RowResult]:
    labels = [row.label for row in rows]
    folders = row_folders(labels)
    check_comparison(out, labels, resume)
    find_device(device)
    rows = [replace(row, settings=with_task(row.settings, task)) for row in rows]
    check_tasks(rows, data_folders(data_dir), task)
    results = []
    with exclusive(out, labels, resume):
        write_rows(out, labels)
        for row, name in zip(rows, folders, strict=True):
            places, failures = [], []
            for one in runs_of(row, seeds):
                what, settings = one.what, one.settings
                places.append(out / name / f"seed-{settings.run.seed}")
                failure = failure_of(places[-1]) if resume else None
                if failure is None and not (resume and is_complete(places[-1], settings, task)):
                    try:
                        run(
                            settings,
                            places[-1],
                            device,
                            _labelled(progress, what),
                            data_dir,
                            resume=resume,
                            finish_rounds=finish_rounds,
                            callbacks=[one.for_run(what) for one in callbacks],
                            task=task,
                        )
                    except DivergedError as error:
                        failure = str(error)
                failures += [f"{what}: {failure}"] if failure else []
            results.append(RowResult(row.label, tuple(places), tuple(map(summary_of, places)), tuple(failures)))
    return results


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
