"""Sweeps on a real Dask scheduler with workers of their own, on the loopback."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

import airfl
from airfl.errors import UserError
from airfl.sweeps.points import Plan, build_points
from airfl.sweeps.sweep import Status
from airfl.sweeps.task import Job, settings_of_a_point
from tests.conftest import DEMO, small_settings
from tests.unit.datasets.test_compact_femnist import compact, put_compact

pytest.importorskip("distributed")
dask_config = pytest.importorskip("dask.config")
ROOT = DEMO.parents[2]
AXES = {"scheme.ratio": [0.1, 0.3, 1.0], "power.max_snr_db": [10.0, 20.0, 25.0, 30.0]}


@dataclass
class Dask:
    """A scheduler and its workers, each a process."""

    address: str
    workers: list[subprocess.Popen[bytes]]


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """A Dask process in an empty folder that knows of no data set."""
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "AIRFL_DATA"}
    environment |= {"AIRFL_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:], "--no-dashboard"],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
        )


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    file = tmp_path / "scheduler.json"
    words = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
    processes = [start(tmp_path / "scheduler", *words)]
    try:
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)
        address = json.loads(file.read_text())["address"]
        for number in (1, 2):
            words = ("worker", address, "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
            processes.append(start(tmp_path / f"worker-{number}", *words))
        yield Dask(address, processes[1:])
    finally:
        for process in reversed(processes):
            process.kill()
        for process in processes:
            process.wait(timeout=30)


def test_a_worker_is_killed_in_mid_sweep_and_every_point_is_there_once(dask: Dask, tmp_path: Path) -> None:
    """24 points: the table and the traces equal those of this machine."""
    seen: list[Status] = []

    def report(status: Status) -> None:
        seen.append(status)
        if status.done == 5:
            dask.workers[0].send_signal(signal.SIGKILL)

    there = airfl.sweep(small_settings(), AXES, seeds=2, out=tmp_path / "there", cluster=dask.address, report=report)
    assert dask.workers[0].wait(timeout=30) == -signal.SIGKILL
    assert [status.done for status in seen] == list(range(25))
    here = airfl.sweep(small_settings(), AXES, seeds=2, out=tmp_path / "here", jobs=2)
    assert len(here.runs) == len(there.runs) == 24
    assert not there.failed
    pd.testing.assert_frame_equal(here.frame(), there.frame())
    for run, other in list(zip(here.runs, there.runs, strict=True))[::5]:
        assert run.folder.name == other.folder.name
        with airfl.open_trace(run.folder) as first, airfl.open_trace(other.folder) as second:
            assert first.drop_attrs(deep=False).identical(second.drop_attrs(deep=False))


def test_data_goes_to_the_workers_and_a_point_alone_is_small(dask: Dask, tmp_path: Path) -> None:
    """The workers have no folder of data."""
    put_compact(tmp_path / "data" / "femnist", compact())
    settings = small_settings(
        "task.dataset=femnist",
        "task.model=resnet18",
        "task.public_samples=0",
        "run.devices=3",
        "run.selected=1",
        "run.rounds=1",
        "local.steps=1",
        "local.engine=loop",
    )
    axes, data = {"scheme.ratio": [0.1, 0.3]}, tmp_path / "data"
    found = airfl.sweep(settings, axes, out=tmp_path / "sweep", cluster=dask.address, data_dir=data)
    alone = airfl.run(settings_of_a_point(settings.resolved(scheme={"ratio": 0.1})), data_dir=data)
    assert len(found.runs) == 2
    assert found.runs[0].digest.summary.energy == alone.summary().energy
    assert not (tmp_path / "worker-1" / "cache").exists()
    point = build_points(settings, [], Plan())[0]
    assert len(pickle.dumps(Job(point.folder, settings_of_a_point(settings)))) < 10_000


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airfl.sweeps.cluster.SECONDS_TO_ANSWER", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense://x", "10.0.0.1:x"):
        with pytest.raises(UserError, match="--cluster: no scheduler answers at") as told:
            airfl.sweep(small_settings(), out=tmp_path / "sweep", cluster=address)
        assert "\n" not in str(told.value)
    assert not (tmp_path / "sweep").exists()
    assert dask_config.get("scheduler", None) is None  # nothing of the caller's own Dask is touched
