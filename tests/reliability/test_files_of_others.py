"""Files and folders not written by airfl, and links, are refused in one line and left unchanged."""

import itertools
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import airfl
from airfl.analysis.results import read_results
from airfl.analysis.results.row_result import RowResult
from airfl.analysis.results.tidy import write
from airfl.config import Row
from airfl.core.callbacks.tensorboard import check_live
from airfl.core.checkpoint import carried, check_own, is_carried, rounds_of
from airfl.core.run_folder import remove_run
from airfl.errors import UserError
from airfl.exports import export
from airfl.learning.engines import cache as engine_cache
from airfl.learning.tasks.datasets import cache
from airfl.privacy import figures_on_disk
from airfl.privacy.events import Gaussian
from airfl.report.comparison import MARKS, check_report, copy_report, write_figures, write_report
from airfl.report.page import write_page
from airfl.storage.lock import MARKER, locked
from airfl.storage.output_files import DIGEST_NAME, replace_text, replacing
from airfl.study.compare import compare
from airfl.study.sweeps.attempt import clear_attempts
from airfl.study.sweeps.cluster.received import checked, put_checkpoint
from airfl.study.sweeps.cluster.received import put as take_in
from airfl.study.sweeps.job import Again, Outcome
from airfl.study.sweeps.place import Place
from airfl.study.sweeps.points import SweepPlan, SweepPoint, build_points
from airfl.study.sweeps.sweep import run_points
from airfl.study.sweeps.trials.client import check_own_studies
from airfl.study.sweeps.tuning import check_tuned
from tests.conftest import small_settings
from tests.processes import KILL_BEFORE, KILL_MIDWAY, Parent
from tests.reliability.finished import POINT, finish, rows, settings, sweep_apart
from tests.reliability.refusals import case, refusal, unchanged
from tests.reliability.scale import FULL
from tests.reliability.test_kills import SHORT
from tests.unit.datasets.support import put

Making = Callable[[Path], object]
MINE = b"mine, and nobody else's"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder outside, in which nothing changes."""
    folder = tmp_path / "elsewhere"
    for name in ("file", "folder/deep/file", "lock", "state-00000001", "0123456789ab/trace.h5"):
        put(folder / name, MINE)
    (folder / "empty").touch()
    with unchanged(folder):
        yield folder


def refused(place: Path, action: Callable[[], object], line: str) -> None:
    """In one line, and nothing is changed."""
    with unchanged(place):
        refusal(action, line)


def in_place_of(path: Path, elsewhere: Path) -> Iterator[None]:
    """First somebody's file, then a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for make in (lambda: path.write_bytes(MINE), lambda: path.symlink_to(elsewhere / "x")):
        path.unlink(missing_ok=True)
        make()
        yield


def fresh(out: Path, resume: bool = False) -> object:
    return airfl.run(settings(*SHORT), out, data=rows(), resume=resume)


resumed = partial(fresh, resume=True)
LINE = "not written by airfl|is a link, and airfl does not"

FOLDERS: dict[str, Making] = {
    "weights": lambda folder: (folder / "weights.pt").write_bytes(MINE),
    "a hidden file": lambda folder: (folder / ".notes").write_bytes(MINE),
    "a folder": lambda folder: (folder / "epoch-1").mkdir(),
    "a lock of somebody's": lambda folder: (folder / "lock").write_bytes(MINE),
    "an empty state": lambda folder: (folder / "state-00000001").touch(),
    "all names, no mark": lambda folder: [(folder / one).write_bytes(MINE) for one in ("lock", "about", "records")],
    "a fifo for a lock": lambda folder: os.mkfifo(folder / "lock"),
}


@pytest.mark.parametrize("what", FOLDERS)
def test_a_folder_called_checkpoint_is_not_airfl_s(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "checkpoint"
    folder.mkdir(parents=True)
    FOLDERS[what](folder)
    refused(tmp_path, lambda: resumed(tmp_path / "out"), LINE)
    refused(tmp_path, lambda: fresh(tmp_path / "out"), "contains an unfin")


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint/lock", "checkpoint/state-00000009", "checkpoint/about"])
@pytest.mark.parametrize("target", ["folder", "file", "nowhere"])
def test_no_link_is_followed_on_resuming(name: str, target: str, begun: Path, elsewhere: Path, tmp_path: Path) -> None:
    out = shutil.copytree(begun, tmp_path / "out")
    path = out / name
    if path.is_dir():
        path.rename(out / "moved")
    path.unlink(missing_ok=True)
    path.symlink_to(elsewhere / target)
    refused(out, lambda: resumed(out), f"{name}: is a link, and airfl does not write through links")


@pytest.mark.parametrize("name", ["trace.h5", ".trace.h5.resumed"])
def test_a_trace_that_is_no_trace_is_not_replaced(name: str, begun: Path, elsewhere: Path, tmp_path: Path) -> None:
    out, new = shutil.copytree(begun, tmp_path / "out"), tmp_path / "new"
    for _ in in_place_of(out / name, elsewhere):
        refused(out, lambda: resumed(out), LINE)
    for _ in in_place_of(new / ".trace.h5.resumed", elsewhere):
        refused(new, lambda: fresh(new), LINE)


def test_what_comes_in_while_a_run_goes_on_stays(tmp_path: Path, elsewhere: Path) -> None:
    out = tmp_path / "out"

    def drop(done: int, *more: object) -> None:
        if done == 2:
            (out / "checkpoint" / "weights.pt").write_bytes(MINE)
            (out / "checkpoint" / "state-00000000").symlink_to(elsewhere / "file")

    airfl.run(settings(*SHORT), out, data=rows(), progress=drop)
    assert {path.name for path in (out / "checkpoint").iterdir()} == {"weights.pt", "state-00000000"}
    refused(out, lambda: resumed(out), "(holds|contains) a complete run|not written by airfl|is a link")


def test_what_was_begun_before_there_was_a_marker(begun: Path, tmp_path: Path) -> None:
    """Its lock is empty; about and states say by their contents what they are. An empty one alone is of a kill."""
    old = shutil.copytree(begun, tmp_path / "old")
    (old / "checkpoint" / "lock").write_bytes(b"")
    finish(old, *SHORT)
    for content in (b"", MARKER[:5], MARKER):
        out = tmp_path / f"{len(content)}"
        put(out / "checkpoint" / "lock", content)
        finish(out, *SHORT)
        assert [file.name for file in out.iterdir()] == ["trace.h5"]
    empty = tmp_path / "empty"
    (empty / "checkpoint").mkdir(parents=True)
    check_own(empty)


def test_a_lock_is_not_emptied(tmp_path: Path, elsewhere: Path) -> None:
    file, link, other, nowhere = (tmp_path / name for name in ("file", "link", "other", "nowhere"))
    file.write_bytes(MINE)
    link.symlink_to(elsewhere / "lock")
    other.symlink_to(elsewhere / "empty")  # a marker would go into it
    nowhere.symlink_to(elsewhere / "nowhere")  # a lock would be made there
    for path in (file, link, other, nowhere, elsewhere):
        with pytest.raises(UserError), locked(path, "busy"):
            pass
    assert file.read_bytes() == MINE
    for _ in range(2):
        with locked(tmp_path / "new", "busy"):
            assert (tmp_path / "new").read_bytes() == MARKER


def test_kills_while_a_folder_is_marked(parent: Parent, tmp_path: Path) -> None:
    """What is left is known as airfl's. In short: a folder, half the marker, half of what the run is about."""
    short = ((4, KILL_BEFORE), (5, KILL_MIDWAY), (8, KILL_MIDWAY))
    for nth, how in itertools.product(range(1, 15), (KILL_BEFORE, KILL_MIDWAY)) if FULL else short:
        out = tmp_path / f"{nth}{how}"
        child = parent.run(out, *SHORT, fault=(nth, how))
        assert child.wait() == -9
        finish(out, *SHORT)
        assert [file.name for file in out.iterdir()] == ["trace.h5"]


# Sweeps


def points(ratio: float = 0.25) -> list[SweepPoint]:
    return build_points(small_settings(*POINT), [], SweepPlan({"scheme.ratio": [ratio]}))


def swept(out: Path, ratio: float = 0.25) -> object:
    return run_points(points(ratio), out, Place())


@pytest.mark.parametrize("name", [".running", "sweep.json", "failed.json", ".lock", ".running/0123456789ab", "POINT"])
def test_no_link_is_followed_in_a_sweep(name: str, sweep: Path, elsewhere: Path, tmp_path: Path) -> None:
    out = shutil.copytree(sweep, tmp_path / "out")
    path = out / name.replace("POINT", points(0.5)[0].folder)
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        path.rename(out / "moved")
        if name == "sweep.json":
            shutil.copy(out / "moved", elsewhere.parent / "list")
            path.symlink_to(elsewhere.parent / "list")
    if not path.is_symlink():
        path.symlink_to(elsewhere)
    refused(out, lambda: swept(out, 0.5), "is a link, and airfl does not write through links")


@pytest.mark.parametrize("name", ["thesis/chapter.tex", "thesis.tex", "0123456789AB/trace.h5"])
def test_something_else_in_running(name: str, sweep: Path, tmp_path: Path) -> None:
    out = shutil.copytree(sweep, tmp_path / "out")
    put(out / ".running" / name, MINE)
    refused(out, lambda: swept(out, 0.5), "not written by airfl")


def test_something_else_in_a_point_s_folder(begun: Path, elsewhere: Path, tmp_path: Path) -> None:
    """Nothing of such a folder is removed, not even what is airfl's; without it all of it is."""
    running = tmp_path / ".running"
    makings: dict[str, Making] = {
        "a file": lambda folder: (folder / "thesis.tex").write_bytes(MINE),
        "a file in its checkpoint": lambda folder: (folder / "checkpoint" / "thesis.tex").write_bytes(MINE),
        "a folder": lambda folder: (folder / "figures").mkdir(),
        "a link": lambda folder: (folder / DIGEST_NAME).symlink_to(elsewhere / "file"),
        "no trace": lambda folder: (folder / "trace.h5").write_bytes(MINE),
    }
    for number, (what, make) in enumerate(makings.items()):
        folder = shutil.copytree(begun, running / f"{number:012x}")
        make(folder)
        with case(what):
            refused(running, partial(remove_run, folder), LINE)
    shutil.copytree(begun, running / "0123456789ab")
    (running / "0123456789ab" / f".{DIGEST_NAME}.77").write_bytes(b"half")
    before = len(list(running.iterdir()))
    clear_attempts(running, ())
    assert len(list(running.iterdir())) == before - 1
    assert not (running / "0123456789ab").exists()


def test_names_from_workers(begun: Path, elsewhere: Path, tmp_path: Path) -> None:
    running, name = tmp_path / "out" / ".running", "0123456789ab"
    trace = {"trace.h5": b"trace", DIGEST_NAME: b"{}"}

    def told(point: str, files: Any) -> str:
        ended = take_in(Outcome(point, files=files), running)
        assert ended.files is None
        return str(ended.cause)

    leading_out = ("../../../escaped.txt", "/tmp/escaped.txt", "..", ".", "", "a/b", "x\0")
    for stranger in (*leading_out, "point.json", "checkpoint"):
        assert "its worker sent a file named" in told(name, {**trace, stranger: b"gotcha"})
    for files in ({}, None, {"trace.h5": "text"}, {DIGEST_NAME: b"{}"}):
        assert "its worker sent no trace.h5" in told(name, files)
    for strange in ("../../escaped", "/tmp/escaped", "..", "name", f"{name}/.."):
        assert "not written by airfl" in told(strange, trace)
    assert not running.exists()
    running.parent.mkdir()
    running.symlink_to(elsewhere)
    assert "is a link" in told(name, trace)
    running.unlink()
    shutil.copytree(begun, running / name)
    assert take_in(Outcome(name, files=trace), running).cause is None
    assert {file.name: file.read_bytes() for file in (running / name).iterdir()} == trace
    assert take_in(Outcome(name, "failed"), running).cause == "failed"


@pytest.mark.parametrize("sent", [None, 3, Outcome("../x"), Outcome("0123456789ab", "two\nlines \x1b[31m")])
def test_what_a_worker_sends_back_is_looked_at(sent: Any) -> None:
    name = sent.name if isinstance(sent, Outcome) and sent.cause else "0123456789ab"
    outcome = checked(sent, name)
    assert outcome.name == name
    assert outcome.cause is not None
    assert outcome.cause.isprintable()


def test_checkpoints_from_workers(begun: Path, elsewhere: Path, tmp_path: Path) -> None:
    """Only the three files of a checkpoint are written, into the folder of a point, in place of an earlier attempt."""
    running, name, sent = tmp_path / ".running", "0123456789ab", carried(begun)
    assert rounds_of(sent) > 0
    for stranger in ("../escaped", "lock", "state-00000001", ".about.1", "state-x", "a/b"):
        assert not is_carried({**sent, stranger: b"gotcha"})
        refused(tmp_path, partial(put_checkpoint, name, {**sent, stranger: b"gotcha"}, running), "not written by airfl")
    for missing in sent:
        assert not is_carried({key: value for key, value in sent.items() if key != missing})
    assert not is_carried({**sent, "about": "text"})
    assert not is_carried(None)
    for strange in ("../../escaped", "..", "name"):
        refused(tmp_path, partial(put_checkpoint, strange, sent, running), "not written by airfl")
    assert checked(Outcome(name, "asked", {**sent, "x": b""}, again=Again.ASKED), name).files is None
    shutil.copytree(begun, running / name)
    put_checkpoint(name, sent, running)
    assert {file.name for file in (running / name).rglob("*")} == {"checkpoint", *sent}
    assert carried(running / name) == sent
    shutil.rmtree(running)
    running.symlink_to(elsewhere)
    refused(tmp_path, partial(put_checkpoint, name, sent, running), "not written by airfl|is a link")


# One folder, one use


def compared(out: Path, resume: bool = False, *overrides: str) -> list[RowResult]:
    return compare([Row("a", small_settings(*POINT, *overrides))], 1, out, resume=resume)


def test_one_folder_is_for_one_thing(sweep: Path, begun: Path, tmp_path: Path) -> None:
    uses: dict[str, Making] = {
        "run": fresh,
        "unfinished": resumed,
        "comparison": compared,
        "resumed comparison": lambda out: compared(out, resume=True),
        "sweep": lambda out: swept(out, 0.5),
        "tune": lambda out: run_points(points(0.5), out, Place(), command="tune"),
    }
    compared(tmp_path / "comparison")
    shutil.copytree(tmp_path / "comparison" / "a" / "seed-0", tmp_path / "run")
    shutil.copytree(begun, tmp_path / "unfinished")
    for command in ("sweep", "tune"):
        shutil.copytree(sweep, tmp_path / command)
        listed = json.loads((sweep / "sweep.json").read_text())
        assert listed["command"] == "sweep"
        (tmp_path / command / "sweep.json").write_text(json.dumps({**listed, "command": command}))
    for kind, (name, use) in itertools.product(("comparison", "run", "unfinished", "sweep", "tune"), uses.items()):
        if name.removeprefix("resumed ") != kind and (name, kind) != ("unfinished", "run"):
            with case(f"{name} into the folder of a {kind}"):
                refused(tmp_path / kind, partial(use, tmp_path / kind), "contains |is not empty|is not an empty folder")


def test_two_uses_begun_at_the_same_time(tmp_path: Path) -> None:
    """Each has found the folder empty before the other has taken its lock: the second finds the first's."""
    out, other = tmp_path / "out", tmp_path / "other"
    put(out / "checkpoint" / "lock", MARKER)
    refused(out, lambda: compared(out, resume=True), "contains an unfinished run")
    refused(out, lambda: swept(out), "contains a run")
    with locked(other / ".lock", "busy"):
        for use in (fresh, resumed):
            refused(other, partial(use, other), "contains a sweep or a comparison that is being written")
        for use in (compared, swept):
            refused(other, partial(use, other), "another process is writing into it")


def test_a_kill_before_there_is_a_list_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("sweep", "rows"):
        put(tmp_path / name / ".lock", MARKER)
        put(tmp_path / name / f".{name}.json.4711", b"half")
    sweep_apart(tmp_path / "sweep")
    compared(tmp_path / "rows")
    assert not (tmp_path / "rows" / ".lock").exists()


# Tables, figures, reports


@pytest.mark.parametrize("name", [*MARKS, "tuned.toml", "trials.journal", "client.txt"])
def test_no_file_of_a_comparison_replaces_another(name: str, elsewhere: Path, tmp_path: Path) -> None:
    check = check_own_studies if name in ("trials.journal", "client.txt") else check_tuned
    actions: list[Making] = [partial(write_report, []), check_report] if name in MARKS else [check]
    if name in ("comparison.md", "learning.png"):
        actions.append(partial(copy_report, []))
    for _ in in_place_of(tmp_path / "out" / name, elsewhere):
        for action in actions:
            refused(tmp_path, partial(action, tmp_path / "out"), LINE)


def test_own_files_of_a_comparison_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for drawing in ("airfl.report.figures.draw", "airfl.report.privacy_figure.draw"):
        monkeypatch.setattr(drawing, Mock())  # empty figures, which are written in no time
    out, links = tmp_path / "out", tmp_path / "links"
    for resume in (False, True):
        files = write_report(compared(out, resume, "scheme.ratio=0.5"), out)
        copies = copy_report(files, tmp_path / "docs")
    assert {file.name for file in copies} == {"comparison.md", "learning.png"}
    assert [file.read_bytes() for file in copies] == [(out / file.name).read_bytes() for file in copies]
    assert not [file.name for file in out.iterdir() if file.name.startswith(".")]
    links.mkdir()
    for name in ("learning.pdf", "rounds.csv", "report.html"):
        (links / name).symlink_to(tmp_path / "nowhere")
    refused(links, lambda: write_figures([("a", [out / "a" / "seed-0"])], links), "learning.pdf: already exists")
    refused(links, lambda: export(out / "a" / "seed-0", "csv", links), "rounds.csv: already exists")
    refused(links, lambda: write_page(out, links / "report.html"), "is a link")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["results.csv", "results.parquet"])
def test_no_table_of_a_sweep_replaces_another(name: str, sweep: Path, elsewhere: Path, tmp_path: Path) -> None:
    out = shutil.copytree(sweep, tmp_path / "out")
    found = read_results([out])
    write(found.frame(), out, replace=True)  # its own
    for _ in in_place_of(out / name, elsewhere):
        refused(out, lambda: write(found.frame(), out, replace=True), LINE)


def test_events_of_another_run(elsewhere: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "tensorboard").symlink_to(elsewhere)
    refused(tmp_path, lambda: check_live(tmp_path / "a", resume=True), "is a link")
    put(tmp_path / "b" / "tensorboard" / "events.out.tfevents.1.airfl", MINE)
    refused(tmp_path, lambda: check_live(tmp_path / "b", resume=True), "not written by airfl")


def test_a_file_that_is_written_beside_is_new(elsewhere: Path, tmp_path: Path) -> None:
    """A link, or a file, of the name that it would have is left alone."""
    path, beside, link = tmp_path / "file", tmp_path / f".file.{os.getpid()}", tmp_path / "link"
    beside.symlink_to(elsewhere / "file")
    with replacing(path) as temporary:
        temporary.write_text("whole")
    assert (path.read_text(), beside.is_symlink()) == ("whole", True)
    link.symlink_to(elsewhere / "file")
    refused(tmp_path, lambda: replace_text(link, "text"), "is a link")


# Caches


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that somebody else uses too."""
    folder = put(tmp_path / "cache" / "thesis.tex", MINE).parent
    monkeypatch.setenv("AIRFL_CACHE", str(folder))
    return folder


def test_kept_figures_of_somebody_else(cached: Path, elsewhere: Path) -> None:
    (cached / engine_cache.FILE_NAME).write_bytes(MINE)
    with closing(sqlite3.connect(cached / figures_on_disk.FILE_NAME)) as table, table:
        table.execute("create table letters (text)")
    for _ in range(2):
        with unchanged(cached):
            engine_cache.write("place", ("layers", 8))
            assert engine_cache.read("place", ["layers"]) is None
            figures = figures_on_disk.cached_figures("a", "add_remove", 1e-5, 0.1, Gaussian(1.0), lambda: (1.0, 2.0))
            assert figures == (1.0, 2.0)
        for name in (engine_cache.FILE_NAME, figures_on_disk.FILE_NAME):
            (cached / name).unlink()
            (cached / name).symlink_to(elsewhere / "file")


def test_decoded_data_of_somebody_else(cached: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = put(tmp_path / "source", b"data")
    put(cached / "name" / cache._key([source]) / "meta.json", MINE)
    with unchanged(cached):
        for _ in range(2):
            assert cache.cached("name", [source], rows).classes == rows().classes
    assert "the cache cannot be written" in caplog.text


def test_a_new_cache_folder_is_tagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "new"))
    engine_cache.write("place", ("layers", 8))
    assert (tmp_path / "new" / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    (tmp_path / "new" / engine_cache.FILE_NAME).write_bytes(b"damaged")  # it is ours, and made anew
    engine_cache.write("place", ("layers", 8))
    assert engine_cache.read("place", ["layers"]) == ("layers", 8)
