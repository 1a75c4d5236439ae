"""Several runs on the same devices, fades and noise: a row a setting, a run folder a row and seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.callbacks.callback import Callback
from airfl.callbacks.telling import check_callbacks
from airfl.config import Row, Settings
from airfl.device import find_device
from airfl.errors import DivergedError
from airfl.record import Record
from airfl.report.summary import Summary, summary_of
from airfl.rows import alone, check_comparison, row_folders, write_rows
from airfl.run_files import Progress
from airfl.simulation import failure_of, is_complete, run
from airfl.streams import Streams
from airfl.tasks import with_task
from airfl.tasks.datasets import data_folders, load_dataset
from airfl.tasks.task import build_task

if TYPE_CHECKING:
    from airfl.tasks.own import Task

LabelledProgress = Callable[[str, int, int, Record], None]
"""As `Progress` of a run, with its label first."""


@dataclass(frozen=True)
class RowResult:
    """A row of a comparison: its runs, one a seed, in the order of the seeds; failures: why those failed that did."""

    label: str
    folders: tuple[Path, ...]
    summaries: tuple[Summary, ...]
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeededRun:
    """A run of a row: what it is called while it goes on, its settings."""

    what: str
    settings: Settings


def runs_of(row: Row, seeds: int) -> list[SeededRun]:
    """The runs of a row, seeds counted up from its own."""
    first = row.settings.run.seed
    return [
        SeededRun(row.label if seeds == 1 else f"{row.label}, seed {seed}", row.settings.resolved(run={"seed": seed}))
        for seed in range(first, first + seeds)
    ]


def compare(
    rows: Sequence[Row],
    seeds: int,
    out: Path,
    device: str = "cpu",
    progress: LabelledProgress | None = None,
    data_dir: str | Path | None = None,
    *,
    resume: bool = False,
    finish_rounds: bool = False,
    callbacks: Sequence[Callback] = (),
    task: Task | None = None,
) -> list[RowResult]:
    """Run every row with `seeds` seeds, counted up from the row's own; the runs go to out/ROW/seed-S.

    progress(what, rounds done, rounds, record) after every round; data_dir, finish_rounds, task as in `run`; resume: go
    on with the comparison in `out`; callbacks: of every run, a fresh copy each (`Callback.for_run`). A run that
    diverges stops no other, a callback that raises stops the comparison. UserError if `out` holds something else
    already.
    """
    check_callbacks(callbacks)
    labels = [row.label for row in rows]
    folders = row_folders(labels)
    check_comparison(out, labels, resume)
    find_device(device)
    rows = [replace(row, settings=with_task(row.settings, task)) for row in rows]
    check_tasks(rows, data_folders(data_dir), task)
    results = []
    with alone(out, labels, resume):
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
                            _tell(progress, what),
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
    """UserError if the data of any row cannot be had or divided: found before the first row is run, not after."""
    seen = []
    for row in rows:
        what = (row.settings.task, row.settings.run.devices)
        if what not in seen:
            seen.append(what)
            raw = task.raw if task else load_dataset(row.settings.task.dataset, folders)
            build_task(row.settings, raw, Streams(row.settings.run.seed), task)


def _tell(progress: LabelledProgress | None, what: str) -> Progress | None:
    if progress is None:
        return None
    return lambda done, rounds, record: progress(what, done, rounds, record)
