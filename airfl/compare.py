"""Several runs on the same devices, fades and noise: a row a setting, a run folder a row and seed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from airfl.config import Row
from airfl.device import find_device
from airfl.errors import UserError
from airfl.output import ROWS_NAME, check_new
from airfl.record import Record
from airfl.report.summary import Summary
from airfl.simulation import run
from airfl.streams import Streams
from airfl.tasks.datasets import data_folders, load_dataset
from airfl.tasks.task import build_task

Progress = Callable[[str, int, int, Record], None]


@dataclass(frozen=True)
class RowResult:
    """A row of a comparison: its runs, one a seed, in the order of the seeds."""

    label: str
    folders: tuple[Path, ...]
    summaries: tuple[Summary, ...]


def compare(
    rows: Sequence[Row],
    seeds: int,
    out: Path,
    device: str = "cpu",
    progress: Progress | None = None,
    data_dir: str | Path | None = None,
) -> list[RowResult]:
    """Run every row with `seeds` seeds, counted up from the row's own; the runs go to out/ROW/seed-S.

    progress(what, rounds done, rounds, record) after every round; data_dir as in `run`. UserError if `out` holds
    something already.
    """
    folders = row_folders([row.label for row in rows])
    check_new(out)
    find_device(device)
    check_tasks(rows, data_folders(data_dir))
    out.mkdir(parents=True, exist_ok=True)
    (out / ROWS_NAME).write_text(
        json.dumps([{"label": row.label, "folder": name} for row, name in zip(rows, folders, strict=True)])
    )
    results = []
    for row, name in zip(rows, folders, strict=True):
        first = row.settings.run.seed
        runs = []
        for seed in range(first, first + seeds):
            what = row.label if seeds == 1 else f"{row.label}, seed {seed}"
            report = _tell(progress, what)
            settings = row.settings.resolved(run={"seed": seed})
            runs.append(run(settings, out / name / f"seed-{seed}", device, report, data_dir))
        results.append(
            RowResult(row.label, tuple(done.path.parent for done in runs), tuple(done.summary() for done in runs))
        )
    return results


def check_tasks(rows: Sequence[Row], folders: Sequence[Path]) -> None:
    """UserError if the data of any row cannot be had or divided: found before the first row is run, not after."""
    seen = []
    for row in rows:
        what = (row.settings.task, row.settings.run.devices)
        if what not in seen:
            seen.append(what)
            build_task(row.settings, load_dataset(row.settings.task.dataset, folders), Streams(row.settings.run.seed))


def row_folders(labels: Sequence[str]) -> list[str]:
    """A folder name for each label; UserError if two labels give the same."""
    names = [re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.") or "row" for label in labels]
    for name, label in zip(names, labels, strict=True):
        if names.count(name) > 1:
            raise UserError(f"[[compare]]: the label {label!r} is there twice, or as good as; give each row its own")
    return names


def _tell(progress: Progress | None, what: str) -> Callable[[int, int, Record], None] | None:
    if progress is None:
        return None
    return lambda done, rounds, record: progress(what, done, rounds, record)
