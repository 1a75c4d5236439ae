"""Traces with forged but matching seals are first read in a separate process, and never without limits."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import h5py
import numpy as np
import pytest

from airfl.analysis.results import read_results
from airfl.analysis.results.digest import _checksum, digest_of, keep
from airfl.cli import app
from airfl.exports import export
from airfl.storage.output_files import DIGEST_NAME
from airfl.storage.trace import isolated, open_trace
from airfl.storage.trace.integrity import open_own
from channels.isolated.server import DEADLY, ENDLESS, Server
from tests.reliability import forgery
from tests.reliability.forgery import ODD, Edit, attribute, edited, write_sealed
from tests.reliability.forked import forked_readers
from tests.reliability.refusals import case, refusal
from tests.reliability.scale import FULL, Measured, cases
from tests.reliability.test_traces import check_each, read_each


@pytest.fixture
def from_outside(unsealed: bytes, tmp_path: Path) -> Path:
    """Three runs, none of which this process would read itself."""
    for name in ("seed-0", "seed-1", "seed-2"):
        (tmp_path / name).mkdir()
        edited(tmp_path / name / "trace.h5", unsealed, attribute("x", name))
    return tmp_path


def test_every_value_of_a_trace_is_replaced(unsealed: bytes, tmp_path: Path, measured: Measured) -> None:
    files: list[Path] = []
    plain = tmp_path / "plain.h5"
    plain.write_bytes(unsealed)
    for kind in (forgery.replaced_attributes, forgery.replaced_values, forgery.replaced_settings):
        every = list(kind(plain))
        for place in np.random.default_rng(18).choice(len(every), cases(2, 250), replace=False):
            what, how = every[place]
            files.append(tmp_path / f"{len(files)}-{''.join(filter(str.isalnum, what))[:60]}.h5")
            edited(files[-1], unsealed, how)
    told = read_each("trace", tmp_path, files)
    measured(f"{len(told)} traces of which one value was replaced, sealed again: {check_each(told, 1)}")


def without_packing(file: h5py.File) -> None:
    settings = json.loads(file.attrs["config"])
    del settings["grid"]
    file.attrs["config"] = json.dumps(settings)


@pytest.mark.parametrize(
    ("lacking", "to"),
    [
        (lambda file: file.attrs.__delitem__("airfl_version"), "channel"),
        (lambda file: file.__delitem__("tx_symbols"), "sigmf"),
        (without_packing, "sigmf"),
    ],
    ids=["version", "sent symbols", "packing"],
)
def test_an_export_that_finds_too_little_says_so(lacking: Edit, to: str, unsealed: bytes, tmp_path: Path) -> None:
    """Tables need little of a trace, and so does opening one; a format may need more."""
    path = edited(tmp_path / "trace.h5", unsealed, lacking)
    wanted = rf"trace.h5: cannot be exported to {to}, as its contents are .*Error: .*; run it again"
    refusal(lambda: export(path, to, tmp_path / "out"), wanted)
    assert not [file for file in (tmp_path / "out").glob("**/*") if file.is_file()]


def test_only_what_this_process_has_sealed_is_read_in_it(
    finished: Path, unsealed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever computes a seal for something else gets nowhere by that."""
    monkeypatch.setattr(isolated, "_server", None)  # whoever asks it fails
    with open_trace(finished) as trace:
        right = trace.load()
    copy, forged = tmp_path / "copy.h5", tmp_path / "forged.h5"
    shutil.copy(finished, copy)
    with open_trace(copy) as trace:
        assert trace.load().identical(right)
    write_sealed(forged, unsealed[:-1] + bytes([unsealed[-1] ^ 1]))
    assert open_own(forged) is None
    refusal(lambda: open_trace(forged), "not a readable trace")


def test_values_are_handed_over_in_blocks(from_outside: Path, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "BLOCK_BYTES", 100)
    with open_trace(finished) as own, open_trace(from_outside / "seed-0") as trace:
        assert trace.attrs["x"] == "seed-0"
        for name in own:
            np.testing.assert_array_equal(trace[name].values, own[name].values, err_msg=str(name))
        part = {"round": [2, 0, 0], "slot": slice(7, 1, -3)}
        np.testing.assert_array_equal(trace["update_norm"].isel(part).values, own["update_norm"].isel(part).values)


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A library that does not survive some files, in processes that are forked: each file takes several."""
    server = Server("tests.reliability.deadly_server")
    monkeypatch.setattr(isolated, "_server", server)
    monkeypatch.setattr(isolated, "_failures", {})
    with forked_readers():
        yield
        server.close()


@pytest.mark.parametrize(("name", "line"), [("deadly", DEADLY), ("endless", ENDLESS)])
@pytest.mark.usefixtures("deadly")
def test_one_bad_run_leaves_the_others(name: str, line: str, from_outside: Path) -> None:
    bad = (from_outside / "seed-1").rename(from_outside / f"seed-{name}") / "trace.h5"
    found = read_results(from_outside)
    assert [run.folder.name for run in found.runs] == ["seed-0", "seed-2"]
    told = f"{bad}: not a readable trace, or truncated ({line})"
    assert dict(found.unreadable) == {str(bad.parent): told}
    assert refusal(lambda: read_results(bad.parent)) == told


@pytest.mark.usefixtures("deadly")
def test_one_bad_run_is_left_out_by_every_command(
    from_outside: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = (from_outside / "seed-1").rename(from_outside / "seed-deadly") / "trace.h5"
    told = f"{bad}: not a readable trace, or truncated ({DEADLY})"
    monkeypatch.setattr("airfl.report.figures.draw", Mock())  # an empty figure, which is written in no time

    def said(*words: str | Path) -> str:
        capsys.readouterr()
        app(list(map(str, words)), standalone_mode=False)
        printed = capsys.readouterr()
        left_out = [one for one in printed.err.splitlines() if "left out: " in one and "trace.h5" in one]
        assert left_out == [f"left out: {told}"]
        return printed.out

    plain = json.loads(said("results", from_outside, "--json"))
    assert plain["unreadable"] == {str(bad.parent): told}
    assert sum(len(group["seeds"]) for group in plain["groups"]) == 2
    said("report", from_outside)
    page = (from_outside / "report.html").read_text()
    assert "1 left out:" in page
    assert bad.parent.name in page
    said("plot", from_outside, "--out", from_outside / "plots")
    said("figures", from_outside, "--out", from_outside / "figures", "--only", "table")
    words = ["export", str(from_outside), "--to", "csv", "--out", str(from_outside / "csv")]
    refusal(lambda: app(words, standalone_mode=False), DEADLY)
    assert not (from_outside / "csv").exists()


@pytest.mark.usefixtures("deadly")
def test_a_run_is_not_blamed_for_what_another_did(from_outside: Path) -> None:
    """What one file has done to the process shows when the next is read: that one is tried again in a new process."""
    (from_outside / "seed-1").rename(from_outside / "seed-poison")
    assert len(read_results(from_outside).runs) == 3


def test_a_forged_digest_is_not_taken(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checksum fits; what it says is not of the kind that a run has."""
    shutil.copy(finished, tmp_path / "trace.h5")
    right = keep(tmp_path)
    monkeypatch.setattr("airfl.analysis.results.digest.open_trace", nullcontext)
    monkeypatch.setattr("airfl.analysis.results.digest.digest", lambda trace: right)  # made anew, and at once
    kept = json.loads((tmp_path / DIGEST_NAME).read_text())
    kept.pop("sha256")
    others = {
        **{("summary", name): ODD if FULL or name == "rounds" else ("x",) for name in kept["summary"]},
        **{("course", name): ([1.0], None) if FULL or name == "rounds" else ([1.0],) for name in kept["course"]},
        **{("settings", name): (None, 3, []) for name in ("run", "task")},
    }
    for (table, name), other in ((place, other) for place, several in others.items() for other in several):
        forged = {**kept, table: {**kept[table], name: other}}
        (tmp_path / DIGEST_NAME).write_text(json.dumps({**forged, "sha256": _checksum(forged)}))
        found = digest_of(tmp_path)
        with case((table, name, other)):
            for one, value in vars(right.summary).items():
                assert type(getattr(found.summary, one)) in (type(value), int if isinstance(value, float) else None)
            assert all(len(values) == len(right.course["rounds"]) for values in found.course.values())
            assert found.setting("run.seed") == 0


def test_a_pipe_in_place_of_a_digest_is_not_waited_for(finished: Path, tmp_path: Path) -> None:
    """In place of a trace: test_given_files.py."""
    shutil.copy(finished, tmp_path / "trace.h5")
    os.mkfifo(tmp_path / DIGEST_NAME)
    assert digest_of(tmp_path).summary.rounds == 3
