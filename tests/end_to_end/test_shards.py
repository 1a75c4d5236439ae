"""Sweeps and comparisons that several processes share: whatever happens to them, results are those of one process."""

import json
import os
import shutil
import signal
import time
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

import airfl
from airfl.analysis.results import read_results
from airfl.config import Row
from airfl.core.checkpoint import read_saved
from airfl.core.record import Record
from airfl.errors import UserError
from airfl.report.comparison import write_report
from airfl.storage.claim import EXPIRY_S
from airfl.storage.output_files import SHARDS_NAME
from airfl.study.compare import compare
from airfl.study.shards import Shard
from airfl.study.sweeps.attempt import attempt
from airfl.study.sweeps.job import Job, Outcome, settings_of_a_point
from airfl.study.sweeps.points import SweepPlan, build_points
from airfl.study.sweeps.sharded import run_shared
from airfl.study.sweeps.status import Status
from tests.conftest import DEMO, SMALL, small_settings
from tests.in_this_process import points_here as points_here
from tests.processes import Child, begun, refused, succeeded
from tests.processes import airfl as airfl_command
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import OF_PEOPLE
from tests.unit.test_claims import aged, of_another_machine

QUICK = (*SMALL, *OF_PEOPLE)
LONG = ("run.rounds=100000", "run.evaluate_every=100000", "run.checkpoint_every=1")
SOME = ("run.rounds=20", "run.evaluate_every=20", "run.checkpoint_every=1")
WORDS = ("sweep", DEMO, *QUICK, "scheme.ratio=0.1,0.3,1.0", "--seeds", 2)
AXES = {"scheme.ratio": [0.1, 0.3]}


def in_order(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name != ".lock")


def assert_same_sweep(one: Path, other: Path) -> None:
    """Check that nothing but the times at which runs began differs between two folders."""
    assert in_order(one) == in_order(other)
    for path in map(other.joinpath, in_order(other)):
        if path.is_dir():
            assert in_order(path) == in_order(one / path.name)
            assert (path / "point.json").read_bytes() == (one / path.name / "point.json").read_bytes()
            assert_same_trace(one / path.name, path)
        else:
            assert path.read_bytes() == (one / path.name).read_bytes(), path.name


def states(out: Path) -> list[Path]:
    return list((out / SHARDS_NAME).glob("*/*/checkpoint/state-*"))


def when_it_has_saved(out: Path, *words: object) -> Child:
    """Start a process, and wait until it has saved a state."""
    child = begun(*words, "--out", out)
    child.until(lambda: states(out))
    return child


def killed(out: Path, *words: object) -> str:
    """Start a process that is killed when it has saved a state, and return when the run that it was at began."""
    child = when_it_has_saved(out, *words)
    child.send(signal.SIGKILL)
    child.wait()
    saved = read_saved(states(out)[0].parents[1])
    assert saved is not None
    time.sleep(1.1)  # runs tell when they began by the second
    return saved.fingerprint.created_utc


def were_of_another_machine(out: Path, seconds: float) -> None:
    """Give the claims to another machine, which renewed them so long ago."""
    for path in (out / SHARDS_NAME).iterdir():
        if path.is_file():
            of_another_machine(path)
            aged(path, seconds)


def began(folder: Path) -> str:
    with airfl.open_trace(folder) as trace:
        return str(trace.attrs["created_utc"])


def test_several_at_once_give_the_sweep_of_one_process(tmp_path: Path) -> None:
    """The third one begins when the others have ended, and has nothing to do."""
    whole, out = tmp_path / "whole", tmp_path / "sweep"
    succeeded(airfl_command(*WORDS, "--out", whole))
    both = [begun(*WORDS, "--out", out, "--shard", f"{index}/3") for index in (2, 1)]
    for child in both:
        assert child.wait() == 0, child.stderr
    assert any("written: " in child.stderr for child in both)
    for child in both:
        assert ("written: " in child.stderr) == ("other processes run the others" not in child.stderr)
    late = succeeded(airfl_command(*WORDS, "--out", out, "--shard", "3/3"))
    assert "6 finished before" in late.stderr
    assert_same_sweep(out, whole)


@pytest.mark.usefixtures("points_here")
@pytest.mark.parametrize("machine", ["this", "another"])
def test_a_shard_that_was_killed_is_gone_on_with(machine: str, tmp_path: Path) -> None:
    """By its own next process, or by others when its claims have ended; from its checkpoint either way."""
    out, whole = tmp_path / "sweep", tmp_path / "whole"
    settings = small_settings(*OF_PEOPLE, *SOME)
    airfl.sweep(settings, AXES, out=whole)
    before = killed(out, "sweep", DEMO, *QUICK, *SOME, "scheme.ratio=0.1,0.3", "--shard", "1/2")
    (name,) = {path.parents[2].name for path in states(out)}
    if machine == "another":
        were_of_another_machine(out, EXPIRY_S + 5)
    results = airfl.sweep(settings, AXES, out=out, shard="1/2" if machine == "this" else "2/2")
    assert (len(results.runs), results.missing, dict(results.running)) == (2, 0, {})
    assert began(out / name) == before
    assert not (out / SHARDS_NAME).exists()
    assert_same_sweep(out, whole)


@pytest.mark.usefixtures("points_here")
def test_shards_that_were_killed_and_a_process_that_has_the_folder_for_itself(tmp_path: Path) -> None:
    """Each goes on from the checkpoints of the other."""
    out, whole = tmp_path / "sweep", tmp_path / "whole"
    settings = small_settings(*OF_PEOPLE, *SOME)
    airfl.sweep(settings, AXES, out=whole)
    before = killed(out, "sweep", DEMO, *QUICK, *SOME, "scheme.ratio=0.1,0.3", "--shard", "2/2")
    (name,) = {path.parents[2].name for path in states(out)}
    airfl.sweep(settings, AXES, out=out)
    assert began(out / name) == before
    assert_same_sweep(out, whole)

    shutil.rmtree(out)
    point = build_points(settings, [], SweepPlan(AXES))[1]
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings_of_a_point(point.settings), out / ".running" / point.folder, progress=interrupted(2))
    shutil.copy(whole / "sweep.json", out)
    before = began(out / ".running" / point.folder)
    time.sleep(1.1)
    airfl.sweep(settings, AXES, out=out, shard="1/2")
    assert began(out / point.folder) == before
    assert_same_sweep(out, whole)


@pytest.mark.usefixtures("points_here")
def test_a_sweep_is_read_while_it_runs(tmp_path: Path) -> None:
    """Results say what runs where; a process without --shard is refused, and one that is asked to stop leaves its
    checkpoints and no claims."""
    out = tmp_path / "sweep"
    words = ("sweep", DEMO, *QUICK, *LONG, "scheme.ratio=0.1,0.3")
    running = when_it_has_saved(out, *words, "--shard", "1/1")
    read = succeeded(airfl_command("results", out))
    owner = f"process {running.pid} of {os.uname().nodename}"
    assert f"running: {out}: scheme.ratio = 0.1, seed 0: {owner}\n" in read.stderr
    assert "2 points are not finished" in read.stderr
    plain = json.loads(succeeded(airfl_command("results", out, "--json")).stdout)
    assert (plain["missing"], list(plain["running"].values())) == (2, [owner])
    assert f"{owner} writes into it with --shard 1/1; give --shard too, or wait" in refused(
        airfl_command(*words, "--out", out)
    )
    assert f"{owner} writes other points into it" in refused(
        airfl_command(*words, "--seeds", 2, "--out", out, "--shard", "1/2")
    )
    assert "a sweep" in refused(
        airfl_command("compare", DEMO, *QUICK, "--schemes", "pfels", "--out", out, "--shard", "1/2")
    )
    running.send(signal.SIGTERM)
    assert running.wait() == 130
    assert "finished points are kept; run the same command to continue" in running.stderr
    assert states(out)
    assert not [path for path in (out / SHARDS_NAME).iterdir() if path.is_file()]
    assert not read_results(out).running


def test_shards_are_refused_where_a_process_has_the_folder_for_itself(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    words = ("sweep", DEMO, *QUICK, *LONG, "scheme.ratio=0.1,0.3", "--out", out)
    alone = begun(*words)
    alone.until(lambda: list(out.glob(".running/*/trace.h5")))
    assert "another process is writing into it without --shard" in refused(airfl_command(*words, "--shard", "1/2"))
    assert not (out / SHARDS_NAME).exists()
    alone.send(signal.SIGKILL)
    alone.wait()


def test_a_point_that_fails_is_tried_again_by_its_own_shard_alone(tmp_path: Path) -> None:
    """Once whenever that one starts; the file of errors is that of one process."""
    settings, out, whole = small_settings(*OF_PEOPLE), tmp_path / "sweep", tmp_path / "whole"
    axes = {"server.learning_rate": [1.0, 1e38]}
    airfl.sweep(settings, axes, out=whole)
    told: list[Status] = []

    def run(shard: str) -> tuple[int, int]:
        told.clear()
        assert len(airfl.sweep(settings, axes, out=out, shard=shard, progress=told.append).failed) == 1
        return told[-1].done, told[-1].failed

    assert run("1/2") == (1, 1)
    assert_same_sweep(out, whole)
    assert run("1/2") == (0, 0)
    assert run("2/2") == (0, 1)
    assert_same_sweep(out, whole)


def test_a_point_that_two_processes_have_finished_is_there_once(tmp_path: Path) -> None:
    """One was suspended until its claim had ended. Whoever comes second keeps the first's, also if its own attempt was
    removed meanwhile."""
    out, settings = tmp_path / "sweep", small_settings(*OF_PEOPLE)
    points = build_points(settings, [], SweepPlan({"scheme.ratio": [0.1, 0.3, 1.0]}))
    seen: list[Status] = []

    def work(jobs: Iterable[Job], running: Path) -> Generator[Outcome, None, None]:
        for number, job in enumerate(jobs):
            folder = running / job.name / job.attempt
            attempt(job, folder)
            if number:  # another process has finished it at the same time
                shutil.copytree(folder, out / job.name)
                (out / job.name / "point.json").write_text("{}")
            if number == 2:
                shutil.rmtree(folder)
                yield Outcome(job.name, "was removed or moved while the run was in progress")
            else:
                yield Outcome(job.name)

    def job(point: object) -> Job:
        return Job(point.folder, settings_of_a_point(point.settings))  # type: ignore[attr-defined]

    run_shared(points, out, Shard(1, 1), "sweep", work, seen.append, 1, lambda point: {"asked": point.folder}, job)
    assert (seen[-1].done, seen[-1].failed) == (3, 0)
    asked = [json.loads((out / point.folder / "point.json").read_text()) for point in points]
    assert asked == [{"asked": points[0].folder}, {}, {}]
    assert in_order(out) == sorted(["sweep.json", *(point.folder for point in points)])


# Comparisons

FAST = (*OF_PEOPLE, "run.rounds=3", "run.checkpoint_every=1")
ROWS = [Row(name, small_settings(f"scheme.name={name}", *FAST)) for name in ("pfels", "wfl-p")]
DIVERGES = Row("too far", small_settings("scheme.name=fedavg", "server.learning_rate=1e38", *FAST))


def test_a_comparison_that_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process stops in its second run, which another goes on with: results are those of one process alone."""
    whole, out, rows = tmp_path / "whole", tmp_path / "shared", [*ROWS, DIVERGES]
    told: list[tuple[str, int]] = []

    def stop(what: str, done: int, rounds: int, record: Record) -> None:
        told.append((what, done))
        if (what, done) == ("pfels, seed 1", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(rows, 2, out, progress=stop, shard="1/6")
    seen = {what for what, _ in told}
    assert states(out)
    told.clear()
    with pytest.raises(UserError, match="other rows"):
        compare(ROWS, 2, out, shard="2/6")
    results = compare(rows, 2, out, progress=lambda what, done, *_: told.append((what, done)), shard="2/6")
    assert told[0] == ("pfels, seed 1", 1)
    assert {what for what, _ in told} | seen == {f"{row.label}, seed {seed}" for row in rows for seed in (0, 1)}
    expected = compare(rows, 2, whole)
    assert [one.failures for one in results] == [one.failures for one in expected]
    for one, other in zip(results, expected, strict=True):
        for folder, of_whole in zip(one.folders, other.folders, strict=True):
            assert_same_trace(folder, of_whole)
            assert in_order(folder) == in_order(of_whole)
    assert in_order(out) == in_order(whole)
    monkeypatch.setattr("airfl.report.comparison.write_figures", lambda *_: [])
    texts = [write_report(compare(rows, 2, at, resume=True), at)[0].read_text() for at in (out, whole)]
    assert texts[0] == texts[1]


def test_a_comparison_goes_on_after_shards_and_the_other_way_round(tmp_path: Path) -> None:
    settings = small_settings(*OF_PEOPLE, *SOME)
    rows, out = [Row(name, settings.resolved(scheme={"name": name})) for name in ("fedavg",)], tmp_path / "out"
    told: list[int] = []

    def stop(what: str, done: int, rounds: int, record: Record) -> None:
        if done == 5:
            raise KeyboardInterrupt

    for stopped, then in (({"shard": "1/1"}, {"resume": True}), ({}, {"shard": "1/1"})):
        with pytest.raises(KeyboardInterrupt):
            compare(rows, 1, out, progress=stop, **stopped)
        place = next(iter(out.rglob("state-*"))).parents[1]
        saved = read_saved(place)
        assert saved is not None
        time.sleep(1.1)
        compare(rows, 1, out, progress=lambda what, done, *_: told.append(done), **then)
        assert began(out / "fedavg" / "seed-0") == saved.fingerprint.created_utc
        assert not (out / SHARDS_NAME).exists()
        shutil.rmtree(out)


def test_the_command_writes_a_comparison_when_every_run_has_ended(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("compare", DEMO, *QUICK, "--schemes", "pfels,fedavg", "--seeds", 2, "--out", out)
    running = when_it_has_saved(out, *words, *LONG, "--shard", "1/2")
    read = succeeded(airfl_command("results", out))
    assert f"running: {out}: pfels, seed 0: process {running.pid}" in read.stderr
    assert "give --shard too, or wait for it" in refused(airfl_command(*words, *LONG, "--resume"))
    running.send(signal.SIGKILL)
    running.wait()
    shutil.rmtree(out)
    done = succeeded(airfl_command(*words, "--shard", "2/2"))
    assert "written: " in done.stderr
    assert (out / "comparison.csv").exists()


# Input


@pytest.mark.parametrize("command", [("sweep", "scheme.ratio=0.1,0.3"), ("compare", "--schemes", "pfels")])
def test_bad_shards_are_refused_in_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    name, *words = command
    for shard, line in (
        ("0/3", "--shard: I/N counts from 1/N to N/N, with N at most 100,000; got 0/3"),
        ("4/3", "got 4/3"),
        ("a/b", "--shard: must be I/N, for instance 2/10 for the second of ten, got 'a/b'"),
    ):
        assert line in refused(airfl_command(name, DEMO, *words, "--out", tmp_path / "out", "--shard", shard))
    for option, line in (
        (("--cluster", "tcp://127.0.0.1:1"), "--shard and --cluster: a cluster distributes the points by itself"),
        (("--tensorboard",), "--shard and --tensorboard: processes that share a comparison cannot share"),
    ):
        if (name == "sweep") == (option[0] == "--cluster"):
            told = refused(airfl_command(name, DEMO, *words, "--out", tmp_path / "out", "--shard", "1/3", *option))
            assert line in told
    assert not (tmp_path / "out").exists()
