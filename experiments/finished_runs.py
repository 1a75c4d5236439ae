"""Runs that a study needs: each has a folder of its own, and one that is finished there is not run again."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import xarray

import airfl
from airfl.config import Settings, to_json

ASKED = "asked.json"  # the settings a run was asked for, written when it is done


def finished(runs: Mapping[str, Settings], out: Path, processes: int, data: Path | None) -> dict[str, xarray.Dataset]:
    """The trace of every run, by name, each in out/NAME. `processes` of them run at a time, one thread each.

    A folder whose run was cut off is made again; one of other settings ends the program.
    """
    missing = {name: settings for name, settings in runs.items() if not _is_finished(settings, out / name)}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=context) as pool:
        jobs = {pool.submit(_run, settings, out / name, data): name for name, settings in missing.items()}
        for done, job in enumerate(as_completed(jobs), 1):
            job.result()
            print(f"{done} of {len(missing)}: {jobs[job]}", flush=True)
    return {name: _read(out / name) for name in runs}


def _run(settings: Settings, folder: Path, data: Path | None) -> None:
    airfl.run(settings.resolved(run={"threads": 1}), folder, data_dir=data)
    (folder / ASKED).write_text(_text(settings))


def _is_finished(settings: Settings, folder: Path) -> bool:
    if not (folder / ASKED).exists():
        if folder.exists():
            shutil.rmtree(folder)
        return False
    if (folder / ASKED).read_text() != _text(settings):
        raise SystemExit(f"{folder}: holds a run of other settings; give another --out, or delete it")
    return True


def _read(folder: Path) -> xarray.Dataset:
    with airfl.open_trace(folder / "trace.h5") as trace:
        return trace.load()


def _text(settings: Settings) -> str:
    return to_json(settings.model_dump(), indent=1)
