"""Checkpoints that were damaged or do not fit: refused in one line, or gone on with to the very same trace."""

from __future__ import annotations

import itertools
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray

import airfl
from airfl.checkpoint import about as about_module
from airfl.checkpoint import read_saved
from airfl.checkpoint.about import check_same
from airfl.errors import MachineError, UserError
from tests.conformance.test_resume import interrupted
from tests.reliability.finished import is_complete, rows, settings, whole
from tests.reliability.mutations import flipped, mutations, truncated
from tests.reliability.scale import cases

Measured = Callable[[str], None]

OVERRIDES = ("run.rounds=6", "run.checkpoint_every=1", "run.evaluate_every=6")
FILES = ("about", "records", "state-00000002", "state-00000003")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted in its fifth round: saved after the second and the third."""
    out = tmp_path_factory.mktemp("stopped") / "out"
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings(*OVERRIDES), out, data=rows(), progress=interrupted(3))
    assert {path.name for path in (out / "checkpoint").iterdir()} == {"lock", *FILES}
    (out / "trace.h5").unlink()  # it is made anew anyway, and to look at it first takes seconds
    return out


def gone_on_with(out: Path) -> bool:
    """Whether it is; else it is refused in one line that names the folder, and stays as it was."""
    before = contents(out)
    try:
        with airfl.run(settings(*OVERRIDES), out, data=rows(), resume=True).trace() as trace:
            xarray.testing.assert_identical(trace.drop_attrs(deep=False), reference())
    except (UserError, MachineError) as error:
        refusal = error
    else:
        return True
    assert str(out) in str(refusal)
    assert not is_complete(out)
    if isinstance(refusal, UserError):
        assert str(out / "checkpoint") in str(refusal)
        assert contents(out) == before
    return False


def reference() -> xarray.Dataset:
    """What nothing happened to."""
    with airfl.open_trace(whole(*OVERRIDES)) as trace:
        return trace.load().drop_attrs(deep=False)


def contents(out: Path) -> dict[str, bytes]:
    """Of all files that can be read."""
    return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def damages(kind: str, data: bytes, number: int) -> Iterator[tuple[str, bytes]]:
    """`number` damaged versions of a file."""
    rng = np.random.default_rng(len(data))
    if kind == "cut":
        return truncated(data, number)
    if kind == "flipped":
        return flipped(rng, data, number)
    return itertools.islice(mutations(rng, data), number)


@pytest.mark.parametrize(("kind", "short", "full"), [("cut", 4, 200), ("flipped", 4, 200), ("mutated", 4, 100)])
def test_a_damaged_file_is_refused_or_does_no_harm(
    kind: str, short: int, full: int, stopped: Path, tmp_path: Path, measured: Measured
) -> None:
    count, ended = cases(short, full) // len(FILES), []
    for name in FILES:
        data = (stopped / "checkpoint" / name).read_bytes()
        for what, damaged in damages(kind, data, count):
            out = tmp_path / "out"
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(stopped, out)
            (out / "checkpoint" / name).write_bytes(damaged)
            try:
                ended.append(gone_on_with(out))
            except BaseException as error:
                error.add_note(f"{name}: {what}")
                raise
            # A state has one before it, `about` is in every state.
            assert ended[-1] or name == "records", f"{name}: {what}"
    assert not all(ended) or len(ended) < 100
    measured(f"checkpoints, {kind}: {len(ended)}, {sum(ended)} gone on with to the same trace, the others refused")


def test_all_that_is_there_is_damaged(stopped: Path, tmp_path: Path) -> None:
    """Both states; then `about` too, where there is no state."""
    out = tmp_path / "out"
    shutil.copytree(stopped, out)
    for name in FILES[2:]:
        data = (out / "checkpoint" / name).read_bytes()
        (out / "checkpoint" / name).write_bytes(data[:-1])
    with pytest.raises(UserError, match=r"state-00000003: is cut off, or damaged; no older state of its run is whole"):
        airfl.run(settings(*OVERRIDES), out, data=rows(), resume=True)
    for name in FILES[2:]:
        (out / "checkpoint" / name).unlink()
    (out / "checkpoint" / "about").write_bytes(b"")
    with pytest.raises(UserError, match=r"checkpoint/about: is cut off, or no checkpoint; choose another --out"):
        airfl.run(settings(*OVERRIDES), out, data=rows(), resume=True)


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
def test_something_else_in_place_of_a_file(name: str, instead: str, stopped: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(stopped, out)
    path = out / "checkpoint" / name
    data = path.read_bytes()
    path.unlink()
    INSTEAD[instead](path, data)
    before = (out / "checkpoint" / name).lstat() if path.is_symlink() or path.is_dir() else None
    gone_on = gone_on_with(out)
    if before is not None:  # no file of airfl's, whichever it stands for: refused, and left as it is
        assert not gone_on
        assert path.lstat().st_ino == before.st_ino
    else:
        assert gone_on or name in ("about", "records")


class _Deadly:
    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (Path("executed"),)


@pytest.mark.parametrize("name", FILES)
def test_nothing_in_a_file_is_executed(
    name: str, stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    for number, write in enumerate((lambda path: path.write_bytes(pickle.dumps(_Deadly())), _torch_saved)):
        shutil.copytree(stopped, tmp_path / f"{number}")
        write(tmp_path / f"{number}" / "checkpoint" / name)
        gone_on_with((tmp_path / f"{number}").rename(out))
        shutil.rmtree(out)
    assert not (tmp_path / "executed").exists()


def _torch_saved(path: Path) -> None:
    torch.save(_Deadly(), path)


def test_an_older_state_is_said_to_be_taken(stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The damaged one does not stay: it would push out a whole one."""
    out = tmp_path / "out"
    shutil.copytree(stopped, out)
    (out / "checkpoint" / FILES[3]).write_bytes(b"")
    (out / "checkpoint" / ".state-00000004.1234").write_bytes(b"of a process that was killed")
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings(*OVERRIDES), out, data=rows(), resume=True, progress=interrupted(2))
    assert f"{FILES[3]}: is cut off, or no checkpoint; an older state of the run is taken" in caplog.text
    assert {path.name for path in (out / "checkpoint").iterdir()} == {"lock", *FILES[:3]}
    saved = read_saved(out)
    assert saved is not None
    assert saved.rounds == 2


def test_other_settings_versions_devices_data(stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    shutil.copytree(stopped, out)
    before, given = contents(out), settings(*OVERRIDES)

    def refused(line: str, *more: str, **other: object) -> None:
        with pytest.raises(UserError, match=re.escape(line)):
            airfl.run(settings(*OVERRIDES, *more), out, resume=True, **{"data": rows(), **other})  # type: ignore[arg-type]
        assert contents(out) == before

    refused("its run was begun with run.seed = 0, here it is 7; go on with what it was begun with", "run.seed=7")
    refused("its run was begun with run.rounds = 6, here it is 60", "run.rounds=60")
    changed = rows().test_targets.copy()
    changed[0] = 1 - changed[0]
    refused("its run was begun with other data", data=type(rows())(**{**vars(rows()), "test_targets": changed}))
    saved = read_saved(out)
    assert saved is not None
    with pytest.raises(UserError, match="its run was begun on cpu, this is cuda"):
        check_same(saved.about, out, given, torch.device("cuda"))
    now = about_module.versions()
    monkeypatch.setattr(about_module, "versions", lambda: {**now, "torch": "1.0"})
    refused(f"its run was begun with torch {now['torch']}, this is 1.0")
    monkeypatch.setattr(about_module, "versions", lambda: now)
    with pytest.raises(UserError, match="holds a run that is not finished; go on with it by --resume"):
        airfl.run(given, out, data=rows())
    assert contents(out) == before
    # When states are saved may change.
    done = airfl.run(settings(*OVERRIDES, "run.checkpoint_every=0"), out, data=rows(), resume=True)
    with done.trace() as trace:
        xarray.testing.assert_identical(trace.drop_attrs(deep=False), reference())


def test_a_run_that_keeps_nothing_begins_again(tmp_path: Path) -> None:
    out, never = tmp_path / "out", ("run.checkpoint_s=0", "run.checkpoint_every=0")
    given = settings(*OVERRIDES, *never)
    for after in (2, 4):
        with pytest.raises(KeyboardInterrupt):
            airfl.run(given, out, data=rows(), progress=interrupted(after), resume=True)
        assert {path.name for path in (out / "checkpoint").iterdir()} == {"lock", "about"}
    seen: list[int] = []
    done = airfl.run(given, out, data=rows(), progress=lambda *status: seen.append(status[0]), resume=True)
    assert seen == [1, 2, 3, 4, 5, 6]
    with done.trace() as trace:
        xarray.testing.assert_identical(trace.drop_attrs(deep=False), reference())
