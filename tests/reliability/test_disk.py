"""Full disks and missing or read-only folders: an error of one line, and no incomplete trace marked as complete."""

import errno
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

import airfl
from airfl.core.checkpoint import read_saved
from tests.conftest import ROOT
from tests.processes import Child, Parent, mounted, read_only
from tests.processes import airfl as command
from tests.reliability.finished import finish, is_complete, rows, settings
from tests.reliability.refusals import case, refusal
from tests.reliability.scale import FULL, Measured, cases
from tests.reliability.test_kills import ENDLESS, SHORT, STEPS, begun

FULL_DISK = os.strerror(errno.ENOSPC)


def says(child: Child, out: Path, reason: str) -> None:
    """It ends with one line that names folder and reason, and is quiet to the end of its interpreter."""
    line = child.refused(1)
    assert str(out) in line
    assert reason in line
    assert "Exception ignored" not in child.stderr
    assert "HDF5" not in child.stderr


def test_a_disk_that_is_full_from_any_call_on(parent: Parent, tmp_path: Path, measured: Measured) -> None:
    """In short: a folder, a state; test_other_things_that_disks_say has the others."""
    # A run makes some 300 such calls; the trace is created in calls 12 to 180.
    tried = range(1, 1000, 3) if FULL else [3, 215]
    failed = 0
    for nth in tried:
        out = tmp_path / str(nth)
        child = parent.run(out, *SHORT, fault=(nth, errno.ENOSPC))
        if child.wait() == 0:
            break
        with case(f"full from call {nth} on"):
            says(child, out, FULL_DISK)
            finish(out, *SHORT)
        failed += 1
        shutil.rmtree(out)
    assert failed >= cases(2, 70)
    measured(f"full disk: {failed} runs, full from one call on each: one line, exit 1, then the same trace")


@pytest.mark.parametrize(("number", "nth"), [(errno.EROFS, 210), (errno.EIO, 100), (errno.EDQUOT, 280)])
def test_other_things_that_disks_say(number: int, nth: int, parent: Parent, tmp_path: Path) -> None:
    """In the making of a state, of the trace, of the seal."""
    out = tmp_path / "out"
    says(parent.run(out, *SHORT, fault=(nth, number)), out, os.strerror(number))
    finish(out, *SHORT)


def test_a_small_disk_that_fills(parent: Parent, tmp_path: Path, measured: Measured) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "-t", "tmpfs", "-o", "size=1m", "airfl"):
        rooms = (150,) if not FULL else (0, 4, 8, 12, 16, 24, *range(32, 320, 16))
        for kib in rooms:
            free = os.statvfs(disk)
            (disk / "fill").write_bytes(bytes(max(free.f_bavail * free.f_frsize - 1024 * kib, 0)))  # so much is left
            out = disk / "out"
            child = parent.run(out, *SHORT)
            if kib > 160 and child.wait() == 0:
                break  # a run of so few rounds fits
            says(child, out, FULL_DISK)
            assert not is_complete(out)
            (disk / "fill").unlink()
            finish(out, *SHORT)
            shutil.rmtree(out)
    measured(f"full disk: tmpfs with {len(rooms)} amounts of room left: one line, exit 1, then the same trace")


def whole_files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name[0] != "."}


def test_a_disk_that_is_full_when_a_run_is_resumed(parent: Parent, tmp_path: Path) -> None:
    """What was saved stays as it is, the trace that was there too."""
    out = tmp_path / "out"
    begun(parent, out, *STEPS).send(9)
    before = whole_files(out)
    for nth in (1, 150) if not FULL else (1, 2, 3, 5, 10, 40, 150, 200):
        says(parent.run(out, *STEPS, "--resume", fault=(nth, errno.ENOSPC)), out, FULL_DISK)
        after = whole_files(out)
        assert {name for name, data in before.items() if after.get(name) != data} <= {"records", "about"}
    finish(out, *STEPS)


@pytest.mark.parametrize("moved", [False, True])
def test_a_folder_that_goes_while_its_run_goes_on(moved: bool, parent: Parent, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    child = begun(parent, out, *ENDLESS)
    if moved:
        out.rename(other)
    else:
        while out.exists():  # what it writes meanwhile, too
            shutil.rmtree(out, ignore_errors=True)
    says(child, out, "removed" if "removed" in child.refused(1) else "No such file")
    assert not out.exists()
    if moved:
        saved = read_saved(other)
        assert saved is not None
        assert saved.rounds > 2


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_cannot_be_written(resume: bool, tmp_path: Path) -> None:
    closed, file = tmp_path / "closed", tmp_path / "file"
    closed.mkdir()
    file.write_text("mine")
    with read_only(closed):
        for out in (closed, closed / "out", file, file / "out"):
            run = partial(airfl.run, settings(*SHORT), out, data=rows(), resume=resume)
            refusal(run, str(file if out.parent == file else out))
    assert file.read_text() == "mine"
    assert not list(closed.iterdir())


def test_data_that_cannot_be_written_beside(parent: Parent, tmp_path: Path) -> None:
    """Nor can the cache of decoded data."""
    data, cache, out = tmp_path / "data", tmp_path / "cache", tmp_path / "out"
    cache.mkdir()
    shutil.copytree(ROOT / "data" / "a9a-sample", data / "a9a-sample")
    with read_only(data), read_only(cache):
        for where in (cache, cache / "airfl", data / "a9a-sample" / "none")[:: 1 if FULL else 2]:
            shutil.rmtree(out, ignore_errors=True)
            child = parent.run(out, *SHORT, "--data-dir", data, AIRFL_CACHE=str(where))
            assert child.wait() == 0, child.stderr
            assert "Traceback" not in child.stderr
            finish(out, *SHORT)


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (("export", "--to", "npz", "--out"), "exported"),
        (("plot", "--out"), "figures"),
        (("report", "--out"), "report.html"),
    ],
)
def test_a_full_disk_names_what_was_to_be_written(
    words: tuple[str, ...], made: str, finished: Path, tmp_path: Path
) -> None:
    """And no empty folder stays there."""
    disk = tmp_path / "disk"
    with mounted(disk, "-t", "tmpfs", "-o", "size=64k", "airfl"):
        free = os.statvfs(disk)
        (disk / "fill").write_bytes(bytes(max(free.f_bavail * free.f_frsize - 8192, 0)))
        done = command(words[0], finished.parent, *words[1:], disk / made)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert FULL_DISK in line
        assert line.startswith(f"airfl: {disk / made}")
        assert [path.name for path in disk.iterdir()] == ["fill"]
