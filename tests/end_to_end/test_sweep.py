"""Sweeps on this machine: the command and the function, cut off, failing, gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import airfl
from airfl.errors import UserError
from airfl.output import SWEEP_NAME
from airfl.results import read_results
from airfl.sweeps.local import check_began, run_jobs
from airfl.sweeps.points import Plan, build_points
from airfl.sweeps.sweep import Status
from airfl.sweeps.task import Job, settings_of_a_point
from tests.conftest import DEMO, SMALL, small_settings
from tests.processes import airfl as airfl_command
from tests.processes import begun, refused, script
from tests.resuming import assert_same_trace, interrupted

ROOT = DEMO.parents[2]
AXES = {"scheme.ratio": [0.1, 1.0]}


def traces(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in root.glob("*/trace.h5")}


def test_one_job_and_two_give_the_same_table_and_traces(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    airfl.sweep(small_settings(), AXES, seeds=2, out=one, jobs=1)
    found = airfl.sweep(small_settings(), AXES, seeds=2, out=two, jobs=2)
    assert len(found.runs) == 4
    pd.testing.assert_frame_equal(found.frame(), read_results(one).frame())
    assert sorted(traces(one)) == sorted(traces(two))
    for name in traces(one):
        with airfl.open_trace(one / name) as first, airfl.open_trace(two / name) as second:
            assert first.drop_attrs(deep=False).identical(second.drop_attrs(deep=False))
    assert not (one / ".running").exists()

    # A point is the run of its settings by itself.
    point = build_points(small_settings(), [], Plan(AXES, seeds=2))[3]
    alone = airfl.run(settings_of_a_point(point.settings), tmp_path / "alone").trace()
    with airfl.open_trace(one / point.folder) as trace:
        assert trace.drop_attrs(deep=False).identical(alone.drop_attrs(deep=False))


def test_points_of_a_seed_share_devices_fades_and_noise(tmp_path: Path) -> None:
    axes = {"scheme.ratio": [0.1, 1.0], "scheme.name": ["pfels", "wfl-p"]}
    found = airfl.sweep(small_settings(), axes, seeds=2, out=tmp_path / "sweep")
    for seed in (0, 1):
        opened = [airfl.open_trace(run.folder).load() for run in found.runs if run.seed == seed]
        for name in ("device_id", "channel_gain", "power_limit"):
            for other in opened[1:]:
                np.testing.assert_array_equal(opened[0][name].values, other[name].values)
    seeds = [airfl.open_trace(run.folder)["device_id"].values for run in found.runs[:2]]
    assert not np.array_equal(*seeds)


def test_finished_points_are_not_run_again_and_new_ones_are_added(tmp_path: Path) -> None:
    out, seen = tmp_path / "sweep", []
    airfl.sweep(small_settings(), {"scheme.ratio": [0.1, 0.3]}, out=out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/trace.h5")}
    results = airfl.sweep(small_settings(), {"scheme.ratio": [0.3, 0.5, 0.1]}, out=out, report=seen.append)
    assert (seen[0], seen[-1].before, seen[-1].done) == (Status(3, before=2), 2, 1)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert [run.values["scheme.ratio"] for run in results.runs] == [0.3, 0.5, 0.1]


def test_a_point_whose_defaults_have_changed_is_not_taken_for_finished(tmp_path: Path) -> None:
    airfl.sweep(small_settings(), out=tmp_path / "sweep")
    asked = next((tmp_path / "sweep").glob("*/point.json"))
    point = json.loads(asked.read_text())
    point["settings"]["channel"]["carrier_hz"] = 1e9  # the default of some other version
    del point["settings"]["trace"]  # a section that version did not have
    asked.write_text(json.dumps(point))
    with pytest.raises(UserError, match=r"was run with channel.carrier_hz = 1000000000.0, which is 3500000000.0 now"):
        airfl.sweep(small_settings(), out=tmp_path / "sweep")


def test_points_of_other_settings_do_not_come_into_one_table(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    airfl.sweep(small_settings(), {"scheme.ratio": [0.1]}, out=out)
    with pytest.raises(UserError, match=r"holds points with run\.rounds = 2, here it is 3; choose another --out"):
        airfl.sweep(small_settings("run.rounds=3"), {"scheme.ratio": [0.5]}, out=out)
    # Swept over, it is a column of the table; so is a key that only the other points were swept over.
    airfl.sweep(small_settings(), {"run.rounds": [3]}, out=out)
    found = airfl.sweep(small_settings(), {"run.rounds": [3], "scheme.ratio": [0.1]}, out=out)
    assert sorted((run.values["scheme.ratio"], run.values["run.rounds"]) for run in found.runs) == [
        (0.1, 2),
        (0.1, 3),
        (0.3, 3),
    ]


def test_a_point_that_fails_is_told_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay file loses its last round when the sweep has begun."""
    import h5py

    import airfl.sweeps.progress
    from airfl.cli import main

    file, out = tmp_path / "gains.h5", tmp_path / "sweep"

    def write_gains(rounds: int) -> None:
        with h5py.File(file, "w") as replay:
            replay["gains"] = np.full((rounds, 100), 0.02)

    shown = airfl.sweeps.progress.sweep_progress

    @contextmanager
    def damaging() -> Iterator[Callable[[Status], None]]:
        with shown() as report:

            def damage_and_report(status: Status) -> None:
                if not (status.done or status.failed):
                    write_gains(2)
                report(status)

            yield damage_and_report

    monkeypatch.setattr(airfl.sweeps.progress, "sweep_progress", damaging)
    words = ["airfl", "sweep", DEMO, *SMALL, "channel.fading=replay", f"channel.replay_file={file}", "run.rounds=2,3"]
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--out", str(out)])
    write_gains(3)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert f"failed: run.rounds = 3, seed 0: channel.replay_file: {file}: 'gains' holds 2 of the 3 rounds" in told
    assert told.splitlines()[-1].endswith("1 of 2 points failed; the same command tries them again")
    assert "1 of 2 points, 1 failed" in told
    found = read_results(out)
    assert [run.values["run.rounds"] for run in found.runs] == [2]
    assert len(found.failed) == 1
    listed = airfl_command("results", out, "--json")
    assert list(json.loads(listed.stdout)["failed"].values()) == list(found.failed.values())

    # Mended, the same command runs that point alone.
    write_gains(3)
    monkeypatch.setattr(airfl.sweeps.progress, "sweep_progress", shown)
    main()
    assert "1 finished before" in capsys.readouterr().err
    assert not read_results(out).failed


def test_a_process_that_dies_takes_one_point_with_it(tmp_path: Path) -> None:
    """The second of four points kills its process; the others run, in another one."""
    jobs = [Job(str(seed), small_settings(f"run.seed={seed}"), device="cpu") for seed in range(4)]
    jobs[1] = Job("1", _Deadly.of(jobs[1].settings))
    outcomes = {outcome.name: outcome.cause for outcome in run_jobs(jobs, tmp_path, 2)}
    assert outcomes["1"] == "its process died (SIGKILL); was there enough memory?"
    assert [outcomes[name] for name in "023"] == [None] * 3
    assert all((tmp_path / name / "trace.h5").exists() for name in "023")


class _Deadly:
    """Settings that kill the process which reads them."""

    @classmethod
    def of(cls, settings: airfl.Settings) -> airfl.Settings:
        deadly = settings.model_copy()
        object.__setattr__(deadly, "__class__", _DeadlySettings)
        return deadly


class _DeadlySettings(airfl.Settings):
    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.kill, (_OwnPid(), signal.SIGKILL)


class _OwnPid:
    """The pid of whoever unpickles it."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.getpid, ()


def test_ctrl_c_keeps_finished_points_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    words = ("sweep", DEMO, *SMALL, "run.rounds=6", "scheme.ratio=0.1:0.5:0.1", "--jobs", 2, "--out", out)
    running = begun(*words)
    running.until(lambda: len(traces(out)) >= 2)
    workers = " ".join(file.read_text() for file in Path(f"/proc/{running.pid}/task").glob("*/children")).split()
    for pid in (*workers, running.pid):  # as a terminal sends it: to all processes
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGINT)
    assert running.wait() == 130
    told = running.stderr
    assert "finished points are kept; the same command goes on" in told
    assert "Traceback" not in told
    kept = traces(out)
    assert 2 <= len(kept) < 5
    assert not (out / ".running").exists()
    assert len(read_results(out).runs) == len(kept)

    again = airfl_command(*words)
    assert again.returncode == 0, again.stderr
    assert f"{len(kept)} finished before" in again.stderr
    assert len(traces(out)) == 5
    assert {name: trace for name, trace in traces(out).items() if name in kept} == kept


def test_the_processes_of_a_killed_sweep_end_with_it(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    words = [*map(str, ("sweep", DEMO, *SMALL, "run.rounds=100000", "--jobs", 1, "--out", tmp_path / "sweep"))]
    process = subprocess.Popen(
        [sys.executable, "-m", "airfl", *words], stderr=subprocess.DEVNULL, cwd=ROOT, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "sweep").glob(".running/*/trace.h5")) and time.monotonic() < deadline:
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 1
    process.kill()
    process.wait(timeout=30)
    assert not psutil.wait_procs(children, timeout=30)[1]


def test_what_a_killed_sweep_left_half_is_run_again(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    (done,) = airfl.sweep(small_settings(), {"scheme.ratio": [0.1]}, out=out).runs
    half = out / ".running" / build_points(small_settings(), [], Plan({"scheme.ratio": [0.2]}))[0].folder
    half.mkdir(parents=True)
    trace = (done.folder / "trace.h5").read_bytes()
    (half / "trace.h5").write_bytes(trace[: len(trace) // 2])
    results = airfl.sweep(small_settings(), {"scheme.ratio": [0.2]}, out=out)
    assert [run.values["scheme.ratio"] for run in results.runs] == [0.1, 0.2]


def test_a_point_that_was_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    def begun(trace: Path) -> str:
        with airfl.open_trace(trace) as dataset:
            return str(dataset.attrs["created_utc"])

    settings = small_settings("run.rounds=3", "run.checkpoint_every=1")
    whole = airfl.sweep(settings, {"scheme.ratio": [0.2, 0.3]}, out=tmp_path / "whole")
    out = tmp_path / "sweep"
    airfl.sweep(settings, {"scheme.ratio": [0.1]}, out=out)
    points = build_points(settings, [], Plan({"scheme.ratio": [0.2, 0.9]}))
    for point in points:
        with pytest.raises(KeyboardInterrupt):
            airfl.run(settings_of_a_point(point.settings), out / ".running" / point.folder, progress=interrupted(2))
    before = begun(out / ".running" / points[0].folder)
    time.sleep(1.1)  # the second that a run began in tells one from another
    results = airfl.sweep(settings, {"scheme.ratio": [0.2, 0.3]}, out=out)
    runs = {run.values["scheme.ratio"]: run for run in results.runs}
    assert sorted(runs) == [0.1, 0.2, 0.3]
    assert begun(runs[0.2].folder) == before < begun(runs[0.3].folder)
    for run in whole.runs:
        assert_same_trace(run.folder, runs[run.values["scheme.ratio"]].folder)
    assert not (out / ".running").exists()


def test_two_sweeps_do_not_write_into_one_folder(tmp_path: Path) -> None:
    def report(status: Status) -> None:
        if not status.done:
            with pytest.raises(UserError, match="another process is writing into it"):
                airfl.sweep(small_settings(), {"scheme.ratio": [0.5]}, out=tmp_path / "sweep")

    airfl.sweep(small_settings(), {"scheme.ratio": [0.1]}, out=tmp_path / "sweep", report=report)
    assert len(traces(tmp_path / "sweep")) == 1


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    line = refused(airfl_command("sweep", DEMO, "scheme.ratio=0.1,0.2", "--out", tmp_path))
    assert "holds files of something else" in line
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_trace_of_another_version_is_told_in_one_line(tmp_path: Path) -> None:
    import h5py

    airfl.sweep(small_settings(), out=tmp_path / "sweep")
    trace = next((tmp_path / "sweep").glob("*/trace.h5"))
    with h5py.File(trace, "a") as file:
        file.attrs["schema"] = "airfl-trace/9"
    line = refused(airfl_command("results", tmp_path / "sweep"))
    assert "airfl-trace/9" in line
    assert "airfl-trace/1" in line


def test_results_prints_tables_and_writes_nothing_twice(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    airfl.sweep(small_settings(), {"scheme.ratio": [0.1, 1.0]}, seeds=2, out=out)
    done = airfl_command(
        "results", out, "--sort", "test_accuracy", "--at", "rounds", "--at", "energy=1e6", "--target", 0.1
    )
    assert done.returncode == 0, done.stderr
    for words in ("accuracy % at equal cost", "rounds = 2", "1.00e6", "cost to reach an accuracy of 10%"):
        assert words in done.stdout
    for words, message in (
        (["--at", "enrgy"], "did you mean energy"),
        (["--at", "energy=-1"], "a number above 0 is wanted"),
        (["--sort", "nothing"], "--sort: there is no 'nothing'"),
    ):
        assert message in refused(airfl_command("results", out, *words))


UNGUARDED = """
import airfl
print("begun", flush=True)
airfl.sweep({config!r}, {{"scheme.ratio": [0.1, 0.3]}}, out={out!r}, jobs=2, overrides={overrides!r})
"""


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    """Once, with its mend, and not by each process; with the guard the same script goes on in the same folder."""
    file, out = tmp_path / "script.py", tmp_path / "out"
    file.write_text(UNGUARDED.format(config=str(DEMO), out=str(out), overrides=list(SMALL)))
    ended = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.count("Traceback") == 1
    line = ended.stderr.splitlines()[-1]
    assert line.startswith(f"airfl.errors.UserError: {file}: calls a sweep without a main guard; put ")
    assert 'if __name__ == "__main__":' in line
    assert "died" not in ended.stderr
    assert not (out / SWEEP_NAME).exists()
    file.write_text(file.read_text().replace("airfl.sweep(", 'if __name__ == "__main__": airfl.sweep('))
    assert script(file).returncode == 0
    assert len(airfl.read_results(out).runs) == 2


@pytest.mark.parametrize(
    ("file", "code", "line"),
    [
        (
            "script.py",
            1,
            "script.py: ended a process of the sweep when it was imported there .exit code 1.; put .* under",
        ),
        ("<stdin>", 1, "<stdin>: no file that the processes of a sweep could import; write the script to one"),
        ("script.py", -9, None),
        (None, 1, None),
    ],
)
def test_what_a_script_does_to_the_processes_that_import_it_is_told(
    file: str | None, code: int, line: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)
    with pytest.raises(UserError, match=line) if line else nullcontext():
        check_began(code)
