"""Local sweeps from the command line and from Python: interrupted, failing and resumed."""

import importlib
import json
import os
import runpy
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

import airfl
from airfl.analysis.results import Results, read_results
from airfl.cli import main
from airfl.core.record import Record
from airfl.errors import UserError
from airfl.simulation import is_complete
from airfl.storage.output_files import SWEEP_NAME
from airfl.study.sweeps import progress
from airfl.study.sweeps.attempt import attempt
from airfl.study.sweeps.job import Job, settings_of_a_point
from airfl.study.sweeps.local import check_began, run_jobs
from airfl.study.sweeps.points import SweepPlan, build_points
from airfl.study.sweeps.sweep import Status
from tests.conftest import DEMO, SMALL, small_settings
from tests.processes import airfl as airfl_command
from tests.processes import begun, refused, succeeded
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import OF_PEOPLE

QUICK = (*SMALL, *OF_PEOPLE)
AXES = {"scheme.ratio": [0.1, 1.0]}


def quick(*overrides: str) -> airfl.Settings:
    return small_settings(*OF_PEOPLE, *overrides)


def traces(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in root.glob("*/trace.h5")}


def ratios(results: Results) -> list[float]:
    return [run.values["scheme.ratio"] for run in results.runs]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ratios with two seeds each, by two processes: read only."""
    out = tmp_path_factory.mktemp("swept") / "sweep"
    assert len(airfl.sweep(quick(), AXES, seeds=2, out=out, jobs=2).runs) == 4
    return out


@pytest.fixture
def copied(swept: Path, tmp_path: Path) -> Path:
    return shutil.copytree(swept, tmp_path / "sweep")


def test_one_job_and_two_give_the_same_table_and_traces(swept: Path, tmp_path: Path) -> None:
    one = airfl.sweep(quick(), AXES, out=tmp_path / "one", jobs=1)
    frame = read_results(swept).frame()
    pd.testing.assert_frame_equal(one.frame(), frame[frame["seed"] == 0].reset_index(drop=True))
    assert len(traces(tmp_path / "one")) == 2
    for name in traces(tmp_path / "one"):
        assert_same_trace(tmp_path / "one" / name, swept / name)
    assert not (swept / ".running").exists()

    # A point is the run of its settings by itself.
    point = build_points(quick(), [], SweepPlan(AXES, seeds=2))[3]
    airfl.run(settings_of_a_point(point.settings), tmp_path / "alone")
    assert_same_trace(tmp_path / "alone", swept / point.folder)


def test_points_of_a_seed_share_devices_and_fades(swept: Path) -> None:
    runs = read_results(swept).runs
    for seed in (0, 1):
        first, second = (airfl.open_trace(run.folder).load() for run in runs if run.seed == seed)
        for name in ("device_id", "channel_gain", "power_limit"):
            np.testing.assert_array_equal(first[name].values, second[name].values)
    seeds = [airfl.open_trace(run.folder)["device_id"].values for run in runs[:2]]
    assert not np.array_equal(*seeds)


def test_finished_points_are_not_run_again_and_new_ones_are_added(copied: Path) -> None:
    seen: list[Status] = []
    before = {path: path.stat().st_mtime_ns for path in copied.glob("*/trace.h5")}
    results = airfl.sweep(quick(), {"scheme.ratio": [1.0, 0.5, 0.1]}, seeds=2, out=copied, report=seen.append)
    assert (seen[0], seen[-1].before, seen[-1].done) == (Status(6, before=4), 4, 2)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert ratios(results) == [1.0, 1.0, 0.5, 0.5, 0.1, 0.1]


def test_a_point_whose_defaults_have_changed_is_not_taken_for_finished(copied: Path) -> None:
    for asked in copied.glob("*/point.json"):
        point = json.loads(asked.read_text())
        point["settings"]["channel"]["carrier_hz"] = 1e9  # the default of some other version
        del point["settings"]["trace"]  # a section that version did not have
        asked.write_text(json.dumps(point))
    with pytest.raises(UserError, match=r"was run with channel.carrier_hz = 1000000000.0, here it is 3500000000.0"):
        airfl.sweep(quick(), AXES, seeds=2, out=copied)


def test_points_of_other_settings_do_not_come_into_one_table(copied: Path) -> None:
    with pytest.raises(UserError, match=r"contains points with run\.rounds = 2, here it is 3; choose another --out"):
        airfl.sweep(quick("run.rounds=3"), {"scheme.ratio": [0.5]}, out=copied)
    # Swept over, it is a column of the table; so is a key that only the other points were swept over.
    airfl.sweep(quick(), {"run.rounds": [3]}, out=copied)
    found = airfl.sweep(quick(), {"run.rounds": [3], "scheme.ratio": [0.1]}, out=copied)
    points = {(run.values["scheme.ratio"], run.values["run.rounds"]) for run in found.runs}
    assert points == {(0.1, 2), (1.0, 2), (0.1, 3), (0.3, 3)}


def test_a_point_that_fails_is_told_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of two replay files loses its last round when the sweep has begun."""
    whole, file, out = tmp_path / "whole.h5", tmp_path / "gains.h5", tmp_path / "sweep"

    def write_gains(rounds: int, path: Path = file) -> None:
        with h5py.File(path, "w") as replay:
            replay["gains"] = np.full((rounds, 12), 0.02)

    shown = progress.sweep_progress

    @contextmanager
    def damaging() -> Iterator[Callable[[Status], None]]:
        with shown() as report:

            def damage_and_report(status: Status) -> None:
                if not (status.done or status.failed):
                    write_gains(1)
                report(status)

            yield damage_and_report

    monkeypatch.setattr(progress, "sweep_progress", damaging)
    words = ["airfl", "sweep", DEMO, *QUICK, "channel.fading=replay", f"channel.replay_file={whole},{file}"]
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--out", str(out)])
    write_gains(2)
    write_gains(2, whole)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert f"failed: channel.replay_file = {file}, seed 0: {file} differs in the process of this point" in told
    assert told.splitlines()[-1].endswith("1 of 2 points failed; run the same command to retry them")
    assert "1 of 2 points, 1 failed" in told
    found = read_results(out)
    assert [run.values["channel.replay_file"] for run in found.runs] == [str(whole)]
    assert len(found.failed) == 1
    listed = airfl_command("results", out, "--json")
    assert list(json.loads(listed.stdout)["failed"].values()) == list(found.failed.values())

    # Mended, the same command runs that point alone.
    write_gains(2)
    monkeypatch.setattr(progress, "sweep_progress", shown)
    main()
    assert "1 finished before" in capsys.readouterr().err
    assert not read_results(out).failed


def test_points_do_not_mix_with_those_of_other_data(tmp_path: Path) -> None:
    """Of a recorded channel, and of a data set; also of a run by itself that is complete."""
    file, out = tmp_path / "gains.npy", tmp_path / "sweep"
    replayed = quick("channel.fading=replay", f"channel.replay_file={file}")
    np.save(file, np.full((2, 12), 0.02))
    before = airfl.sweep(replayed, {"scheme.ratio": [0.1]}, out=out).runs
    np.save(file, np.full((2, 12), 0.03))
    for shard in (None, "1/1"):
        with pytest.raises(UserError, match=rf"{file} has changed since {before[0].folder.name} was run; put it back"):
            airfl.sweep(replayed, AXES, out=out, shard=shard)
    with pytest.raises(UserError, match=f"contains a complete run, and {file} has changed since"):
        is_complete(before[0].folder, settings_of_a_point(build_points(replayed, [], SweepPlan(AXES))[0].settings))
    np.save(file, np.full((2, 12), 0.02))
    assert ratios(airfl.sweep(replayed, AXES, out=out)) == [0.1, 1.0]

    asked = next(out.glob("*/point.json"))
    told = json.loads(asked.read_text())
    told["data"]["a9a-sample"] = "01234567"
    asked.write_text(json.dumps(told))
    with pytest.raises(UserError, match="a9a-sample has changed since"):
        airfl.sweep(replayed, AXES, out=out)


SCALED = """
from airfl.schemes import WflP


class Scaled(WflP):
    name = "scaled"
    title = "Scaled"

    def recipe(self, problem):
        factor = 1.0
        return super().recipe(problem)
"""


def test_a_point_runs_the_code_that_the_sweep_was_started_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that imports another version of a user's module fails its points in one line."""
    (tmp_path / "scaled_here.py").write_text(SCALED)
    monkeypatch.syspath_prepend(tmp_path)
    settings = quick().resolved(scheme={"name": importlib.import_module("scaled_here").Scaled})
    # Of another length, since bytecode of a text of the same second and length would be taken for that of the new one.
    (tmp_path / "scaled_here.py").write_text(SCALED.replace("1.0", "0.125"))
    found = airfl.sweep(settings, {"local.learning_rate": [0.1]}, out=tmp_path / "sweep")
    (cause,) = found.failed.values()
    assert "scheme: the code of Scaled() in scaled_here differs in the process of this point" in cause
    (tmp_path / "scaled_here.py").write_text(SCALED)
    assert not airfl.sweep(settings, {"local.learning_rate": [0.1]}, out=tmp_path / "sweep").failed


def test_a_task_whose_code_differs_is_refused(tmp_path: Path) -> None:
    task = airfl.Task(
        lambda: torch.nn.Linear(3, 2), (torch.eye(3), torch.tensor([0, 1, 1])), (torch.eye(3), torch.tensor([0, 1, 1]))
    )
    job = Job("0" * 12, quick(), task="of other code")
    with pytest.raises(UserError, match="the code of the task differs in the process of this point"):
        attempt(job, tmp_path / "point", task)


def test_a_point_that_fails_by_itself_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fail again after as many rounds. What an earlier process has left is begun again."""
    begun = []

    def failing(rounds: int) -> Callable[[int, int, Record], None]:
        def after_a_round(done: int, of: int, record: Record) -> None:
            begun.append(done)
            if done == rounds:
                raise UserError("the code of a user has failed")

        return after_a_round

    job, folder = Job("0" * 12, quick()), tmp_path / "point"
    for _ in range(2):
        begun.clear()
        with pytest.raises(UserError, match="the code of a user has failed"):
            attempt(job, folder, after_a_round=failing(1))
        assert begun == [1]
    attempt(job, folder)
    assert is_complete(folder, job.settings)


class _Deadly(airfl.Settings):
    """Settings that kill the process which reads them."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return signal.raise_signal, (signal.SIGKILL,)


def test_a_process_that_dies_takes_one_point_with_it(tmp_path: Path) -> None:
    """The second of four points kills its process; the others run, in another one."""
    jobs = [Job(str(seed), quick(f"run.seed={seed}"), device="cpu") for seed in range(4)]
    object.__setattr__(jobs[1].settings, "__class__", _Deadly)
    outcomes = {outcome.name: outcome.cause for outcome in run_jobs(jobs, tmp_path, 2)}
    assert outcomes["1"] == "its process died (SIGKILL); was there enough memory?"
    assert [outcomes[name] for name in "023"] == [None] * 3
    assert all((tmp_path / name / "trace.h5").exists() for name in "023")


class _Unwanted:
    """Gives out one job, which is not wanted any more when it runs."""

    def __init__(self, job: Job) -> None:
        self.jobs, self.name = [job], job.name

    def more(self, at_once: int) -> list[Job]:
        given, self.jobs = self.jobs, []
        return given

    def reported(self, name: str, values: Mapping[int, float]) -> None:
        assert name == self.name

    def unwanted(self) -> list[str]:
        return [self.name]

    @property
    def over(self) -> bool:
        return not self.jobs


def test_an_unwanted_point_is_removed_where_it_ran(tmp_path: Path) -> None:
    """In the folder of its attempt. Another attempt at it is left alone."""
    settings = quick("run.rounds=2000")
    job = Job("point", settings, reports="validation_accuracy", attempt="second")
    (tmp_path / "point" / "first").mkdir(parents=True)
    (outcome,) = run_jobs([], tmp_path, 1, feed=_Unwanted(job))
    assert (outcome.cause, outcome.unwanted) == (None, True)
    assert [path.name for path in (tmp_path / "point").iterdir()] == ["first"]


def test_ctrl_c_keeps_finished_points_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    rounds = "run.rounds=2,50,51"  # the long ones are under way when the short one is finished
    words = ("sweep", DEMO, *QUICK, "run.evaluate_every=51", rounds, "--jobs", 2, "--out", out)
    running = begun(*words)
    running.until(lambda: traces(out))
    workers = " ".join(file.read_text() for file in Path(f"/proc/{running.pid}/task").glob("*/children")).split()
    for pid in (*workers, running.pid):  # as a terminal sends it: to all processes
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGINT)
    assert running.wait() == 130
    told = running.stderr
    assert "finished points are kept; run the same command to continue" in told
    assert "Traceback" not in told
    kept = traces(out)
    assert 1 <= len(kept) < 3
    assert not (out / ".running").exists()
    assert len(read_results(out).runs) == len(kept)

    again = succeeded(airfl_command(*words))
    assert f"{len(kept)} finished before" in again.stderr
    assert len(traces(out)) == 3
    assert {name: trace for name, trace in traces(out).items() if name in kept} == kept


def test_the_processes_of_a_killed_sweep_end_with_it(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    running = begun("sweep", DEMO, *SMALL, "run.rounds=100000", "--jobs", 1, "--out", tmp_path / "sweep")
    running.until(lambda: list((tmp_path / "sweep").glob(".running/*/trace.h5")))
    children = psutil.Process(running.pid).children(recursive=True)
    assert children
    running.send(signal.SIGKILL)
    running.wait()
    assert not psutil.wait_procs(children, timeout=30)[1]


def test_what_a_killed_sweep_left_half_is_run_again(copied: Path) -> None:
    half = copied / ".running" / build_points(quick(), [], SweepPlan({"scheme.ratio": [0.2]}))[0].folder
    half.mkdir(parents=True)
    trace = next(iter(traces(copied).values()))
    (half / "trace.h5").write_bytes(trace[: len(trace) // 2])
    results = airfl.sweep(quick(), {"scheme.ratio": [0.2]}, out=copied)
    assert sorted(ratios(results)) == [0.1, 0.1, 0.2, 1.0, 1.0]


def test_a_point_that_was_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    def begun(trace: Path) -> str:
        with airfl.open_trace(trace) as dataset:
            return str(dataset.attrs["created_utc"])

    settings, out = quick("run.checkpoint_every=1"), tmp_path / "sweep"
    airfl.sweep(settings, {"scheme.ratio": [0.1]}, out=out)
    points = build_points(settings, [], SweepPlan({"scheme.ratio": [0.2, 0.9]}))
    for point in points:
        with pytest.raises(KeyboardInterrupt):
            airfl.run(settings_of_a_point(point.settings), out / ".running" / point.folder, progress=interrupted(1))
    before = begun(out / ".running" / points[0].folder)
    time.sleep(1.1)  # the second that a run began in tells one from another
    results = airfl.sweep(settings, {"scheme.ratio": [0.2, 0.3]}, out=out)
    runs = {run.values["scheme.ratio"]: run for run in results.runs}
    assert sorted(runs) == [0.1, 0.2, 0.3]
    assert begun(runs[0.2].folder) == before < begun(runs[0.3].folder)
    airfl.run(settings_of_a_point(points[0].settings), tmp_path / "whole")
    assert_same_trace(tmp_path / "whole", runs[0.2].folder)
    assert not (out / ".running").exists()


def test_two_sweeps_do_not_write_into_one_folder(copied: Path) -> None:
    seen = []

    def report(status: Status) -> None:
        seen.append(status)
        with pytest.raises(UserError, match="another process is writing into it"):
            airfl.sweep(quick(), {"scheme.ratio": [0.5]}, out=copied)

    airfl.sweep(quick(), {"scheme.ratio": [0.1]}, out=copied, report=report)
    assert seen
    assert len(traces(copied)) == 4


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    line = refused(airfl_command("sweep", DEMO, "scheme.ratio=0.1,0.2", "--out", tmp_path))
    assert "contains other files" in line
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_trace_of_another_version_is_told_in_one_line(copied: Path) -> None:
    for trace in copied.glob("*/trace.h5"):
        with h5py.File(trace, "a") as file:
            file.attrs["schema"] = "airfl-trace/9"
    line = refused(airfl_command("results", copied))
    assert "airfl-trace/9" in line
    assert "airfl-trace/1" in line


def test_results_prints_tables_and_writes_nothing_twice(swept: Path) -> None:
    asked = ("--sort", "test_accuracy", "--at", "rounds", "--at", "energy=1e6", "--target", 0.1)
    done = succeeded(airfl_command("results", swept, *asked))
    for words in ("accuracy % at equal cost", "rounds = 2", "1.00e6", "cost to reach an accuracy of 10%"):
        assert words in done.stdout
    for words, message in (
        (["--at", "enrgy"], "did you mean energy"),
        (["--at", "energy=-1"], "must be a positive number"),
        (["--sort", "nothing"], "--sort: unknown value 'nothing'"),
    ):
        assert message in refused(airfl_command("results", swept, *words))


SCRIPT = """
import os
import airfl
try:
    if {guard}:
        airfl.sweep({config!r}, {{"scheme.ratio": [0.1, 0.3]}}, out={out!r}, jobs=2, overrides={overrides!r})
except SystemExit as end:  # the server that forks processes here forgets their code when they end so early
    os._exit(end.code)
"""


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Once, with its mend, and not by each process; with the guard the same script goes on in the same folder.

    The script is __main__ here; the processes that it starts import it anew, as they do in a reader's hands.
    """
    file, out = tmp_path / "script.py", tmp_path / "out"
    file.write_text(SCRIPT.format(guard=True, config=str(DEMO), out=str(out), overrides=QUICK))
    with pytest.raises(UserError) as told:
        runpy.run_path(str(file), run_name="__main__")
    assert str(told.value).startswith(f"{file}: calls a sweep without a main guard; put ")
    assert 'if __name__ == "__main__":' in str(told.value)
    printed = capfd.readouterr().err
    assert "Traceback" not in printed
    assert "died" not in printed
    assert not (out / SWEEP_NAME).exists()
    file.write_text(file.read_text().replace("if True", 'if __name__ == "__main__"'))
    runpy.run_path(str(file), run_name="__main__")
    assert len(airfl.read_results(out).runs) == 2


@pytest.mark.parametrize(
    ("file", "code", "line"),
    [
        ("script.py", 1, "script.py: importing it ended a process of the sweep .exit code 1.; put .* under"),
        ("<stdin>", 1, "<stdin>: not a file, so the processes of a sweep cannot import it"),
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
