"""Checkpoints that are damaged or do not match are refused in one line, or resumed to exactly the same trace."""

import itertools
import pickle
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray

import airfl
from airfl.core.checkpoint import fingerprint as about_module
from airfl.core.checkpoint import read_saved
from airfl.core.checkpoint.fingerprint import check_same
from airfl.errors import MachineError, UserError
from airfl.simulation import Run
from tests.reliability.finished import begin, is_complete, right, rows, settings
from tests.reliability.mutations import flipped, mutations, truncated
from tests.reliability.refusals import case, everything, refusal, unchanged
from tests.reliability.scale import Measured, cases
from tests.resuming import interrupted

OVERRIDES = ("run.rounds=6", "run.checkpoint_every=1", "run.evaluate_every=6")
FILES = ("about", "records", "state-00000002", "state-00000003")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted in its fifth round: saved after the second and the third."""
    out = begin(tmp_path_factory.mktemp("stopped"), *OVERRIDES, after=3)
    assert {path.name for path in (out / "checkpoint").iterdir()} == {"lock", *FILES}
    (out / "trace.h5").unlink()  # it is made anew anyway, and to look at it first takes seconds
    return out


@pytest.fixture
def out(stopped: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return shutil.copytree(stopped, tmp_path / "out")


def go_on(out: Path, *more: str, **other: Any) -> Run:
    return airfl.run(settings(*OVERRIDES, *more), out, **{"data": rows(), "resume": True, **other})


def as_whole(done: Run) -> None:
    """Its trace is that of the run that nothing happened to."""
    with done.trace() as trace:
        xarray.testing.assert_identical(trace.drop_attrs(deep=False), right(*OVERRIDES).drop_attrs(deep=False))


def gone_on_with(out: Path) -> bool:
    """Whether it is; else it is refused in one line that names the folder, and stays as it was."""
    before = everything(out)
    try:
        as_whole(go_on(out))
        return True
    except (UserError, MachineError) as error:
        line, own = str(error), isinstance(error, UserError)
    assert str(out / "checkpoint" if own else out) in line
    assert not is_complete(out)
    assert not own or everything(out) == before
    return False


@pytest.mark.parametrize(("kind", "full"), [("cut", 200), ("flipped", 200), ("mutated", 100)])
def test_a_damaged_file_does_no_harm(kind: str, full: int, stopped: Path, tmp_path: Path, measured: Measured) -> None:
    count, ended = cases(4, full) // len(FILES), []
    for name in FILES:
        data = (stopped / "checkpoint" / name).read_bytes()
        rng = np.random.default_rng(len(data))
        kinds = {"cut": truncated(data, count), "flipped": flipped(rng, data, count), "mutated": mutations(rng, data)}
        for what, damaged in itertools.islice(kinds[kind], count):
            out = tmp_path / "out"
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(stopped, out)
            (out / "checkpoint" / name).write_bytes(damaged)
            with case(f"{name}: {what}"):
                ended.append(gone_on_with(out))
                # A state has one before it, `about` is in every state.
                assert ended[-1] or name == "records"
    assert not all(ended) or len(ended) < 100
    measured(f"checkpoints, {kind}: {len(ended)}, {sum(ended)} gone on with to the same trace, the others refused")


def test_all_that_is_there_is_damaged(out: Path) -> None:
    """Both states; then `about` too, where there is no state."""
    states = [out / "checkpoint" / name for name in FILES[2:]]
    for state in states:
        state.write_bytes(state.read_bytes()[:-1])
    refusal(lambda: go_on(out), "state-00000003: is cut off, or damaged; no older state of its run is intact")
    for state in states:
        state.unlink()
    (out / "checkpoint" / "about").write_bytes(b"")
    refusal(lambda: go_on(out), "checkpoint/about: is cut off, or no checkpoint; start again with another --out")


INSTEAD: dict[str, Callable[[Path, bytes], object]] = {
    "nothing": lambda path, data: None,
    "empty": lambda path, data: path.write_bytes(b""),
    "folder": lambda path, data: path.mkdir(),
    "link to nowhere": lambda path, data: path.symlink_to("nowhere"),
    "other kind": lambda path, data: path.write_bytes(path.with_name("about").read_bytes()),
    "pickle": lambda path, data: path.write_bytes(pickle.dumps([1])),
    "twice": lambda path, data: path.write_bytes(data * 2),
}
UNREAD = [(FILES[2], instead) for instead in ("empty", "other kind", "pickle", "twice")]
"""The state before the last one is not read, whatever is in it; that of the last one is."""
PLACES = [
    pytest.param(name, instead, marks=[pytest.mark.full] if (name, instead) in UNREAD else [])
    for name, instead in itertools.product(FILES, INSTEAD)
    if (name, instead) != ("about", "other kind")
]


@pytest.mark.parametrize(("name", "instead"), PLACES)
def test_something_else_in_place_of_a_file(name: str, instead: str, out: Path) -> None:
    path = out / "checkpoint" / name
    data = path.read_bytes()
    path.unlink()
    INSTEAD[instead](path, data)
    if path.is_symlink() or path.is_dir():  # no file of airfl's, whichever it stands for: refused, and left as it is
        before = path.lstat().st_ino
        assert not gone_on_with(out)
        assert path.lstat().st_ino == before
    else:
        assert gone_on_with(out) or name in ("about", "records")


class _Deadly:
    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (Path("executed"),)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("save", [lambda what, path: path.write_bytes(pickle.dumps(what)), torch.save])
def test_nothing_in_a_file_is_executed(
    name: str, save: Callable[[object, Path], object], out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(_Deadly(), out / "checkpoint" / name)
    gone_on_with(out)
    assert not (tmp_path / "executed").exists()


def test_an_older_state_is_said_to_be_taken(out: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The damaged one does not stay: it would push out a whole one."""
    (out / "checkpoint" / FILES[3]).write_bytes(b"")
    (out / "checkpoint" / ".state-00000004.1234").write_bytes(b"of a process that was killed")
    with pytest.raises(KeyboardInterrupt):
        go_on(out, progress=interrupted(2))
    assert f"{FILES[3]}: is cut off, or no checkpoint; using an older state of the run" in caplog.text
    assert {path.name for path in (out / "checkpoint").iterdir()} == {"lock", *FILES[:3]}
    saved = read_saved(out)
    assert saved is not None
    assert saved.rounds == 2


def test_other_settings_versions_devices_data(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(line: str, *more: str, **other: object) -> None:
        with unchanged(out):
            refusal(lambda: go_on(out, *more, **other), re.escape(line))

    told("its run was started with run.seed = 0, here it is 7; resume it with what it was started with", "run.seed=7")
    told("its run was started with run.rounds = 6, here it is 60", "run.rounds=60")
    changed = rows().test_targets.copy()
    changed[0] = 1 - changed[0]
    told("its run was started with other data", data=type(rows())(**{**vars(rows()), "test_targets": changed}))
    saved, cuda = read_saved(out), torch.device("cuda")
    assert saved is not None
    on_cuda = partial(check_same, saved.fingerprint, out, settings(*OVERRIDES), cuda)
    refusal(on_cuda, "its run was started on cpu, this is cuda")
    now = about_module.versions()
    monkeypatch.setattr(about_module, "versions", lambda: {**now, "torch": "1.0"})
    told(f"its run was started with torch {now['torch']}, this is 1.0")
    monkeypatch.setattr(about_module, "versions", lambda: now)
    told("contains an unfinished run; resume it with --resume", resume=False)
    as_whole(go_on(out, "run.checkpoint_every=0"))  # when states are saved may change


def test_a_run_that_keeps_nothing_begins_again(tmp_path: Path) -> None:
    out, never = tmp_path / "out", ("run.checkpoint_s=0", "run.checkpoint_every=0")
    for after in (2, 4):
        with pytest.raises(KeyboardInterrupt):
            go_on(out, *never, progress=interrupted(after))
        assert {path.name for path in (out / "checkpoint").iterdir()} == {"lock", "about"}
    seen: list[int] = []
    as_whole(go_on(out, *never, progress=lambda *status: seen.append(status[0])))
    assert seen == [1, 2, 3, 4, 5, 6]
