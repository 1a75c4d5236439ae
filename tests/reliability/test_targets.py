"""Output paths that cannot be written: one line before anything is read or computed, and nothing is created."""

import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from typer.main import get_command

import airfl
import airfl.cli
from airfl.cli.app import app
from airfl.storage.output_files import check_can_be_file, check_can_be_folder
from airfl.study.sweeps.place import place_of
from tests.reliability.nobody import as_nobody
from tests.reliability.refusals import refusal

AIRFL = get_command(app)  # built once: that takes longer than a refusal
COMMANDS: dict[str, list[str]] = {
    "run": ["run", "demo", "--out"],
    "run --resume": ["run", "demo", "--resume", "--out"],
    "compare": ["compare", "demo", "--schemes", "pfels", "--out"],
    "compare --resume": ["compare", "demo", "--schemes", "pfels", "--resume", "--out"],
    "compare --copy-to": ["compare", "demo", "--schemes", "pfels", "--out", "free", "--copy-to"],
    "sweep": ["sweep", "demo", "scheme.ratio=0.1,0.3", "--out"],
    "tune": ["tune", "demo", "local.learning_rate=0.1,0.2", "task.validation_share=0.1", "--out"],
    "budget --plot": ["budget", "demo", "--plot"],
    "privacy --plot": ["privacy", "demo", "--plot"],
    "results --out": ["results", "runs", "--out"],
    "figures": ["figures", "runs", "--out"],
    "plot": ["plot", "runs", "--out"],
    "report": ["report", "runs", "--out"],
    "export": ["export", "runs", "--to", "csv", "--out"],
    "data get": ["data", "get", "mnist", "--data-dir"],
    "channel show": ["channel", "show", "runs", "--out"],
}


@pytest.fixture(autouse=True)
def _nothing_is_computed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A folder of runs that must not be looked into, a world that must not be built, mirrors that must not be asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "trace.h5").touch()
    for what in (
        *(
            "simulation.load_data",
            "study.compare.load_data",
            "study.sweeps.workplace.load_data",
            "storage.trace.open_trace",
        ),
        *("analysis.budget.build_scenario", "analysis.calculator.privacy_of", "analysis.results.collect.digest_of"),
        "learning.tasks.downloads.download.ask",
    ):
        monkeypatch.setattr(f"airfl.{what}", lambda *_, **__: pytest.fail("too late"))
    yield
    assert sorted(file.name for file in tmp_path.iterdir() if file.name not in ("here", "free")) == ["runs"]


def refused(command: str, target: str) -> str:
    words = [*COMMANDS[command], f"{target}/report.html" if command == "report" else target]
    return refusal(lambda: AIRFL(words, standalone_mode=False))


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_folder_without_permission(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There already, or to be made in one that is there; nobody may write on a file system that is read only."""
    (tmp_path / "here").mkdir()
    monkeypatch.setattr("airfl.storage.output_files.may_write", lambda folder: folder.name != "here")
    for target in ("here", "here/below/deep"):
        told = refused(command, target)
        assert told.startswith(target)
        assert "here is not writable by this user; choose another --" in told.replace("here: is", "here is")
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert "is on a read-only file system; choose another --" in refused(command, "here")
    assert not list((tmp_path / "here").iterdir())


def test_what_cannot_be_a_folder(command: str, tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    for target in ("here", "here/below"):
        assert "is a file; " in refused(command, target)
    for target in ("x" * 300, "here/" + "x" * 300, "none/" + "x" * 300, "/".join(["x" * 200] * 21)):
        assert any(words in refused(command, target) for words in ("File name too long", "is a file"))
    assert "File name too long" in refused(command, "none/" + "x" * 300)
    (tmp_path / "here").unlink()
    (tmp_path / "here").symlink_to("gone")
    nowhere = "is a file; the data folder" if command == "data get" else "is a link to a missing target"
    assert nowhere in refused(command, "here")
    (tmp_path / "here").unlink()
    (tmp_path / "here").symlink_to("here")
    assert "symbolic links" in refused(command, "here/below")


def test_an_address_of_an_object_store(command: str) -> None:
    """It is no folder `s3:` of the current one; the line says how to copy to it, or the path of a file:// address."""
    told = refused(command, "s3://bucket/runs")
    assert "must be a folder, got the address s3://bucket/runs" in told
    assert "aws s3 sync DIR s3://bucket/runs" in told
    assert "rclone copy DIR abfs://x@y/runs" in refused(command, "abfs://x@y/runs")
    assert ": must be a path, got file:///here" in refused(command, "file:///here")


def test_addresses_from_python(tmp_path: Path) -> None:
    for call in (
        lambda: airfl.run("demo", "s3://bucket/run"),
        lambda: airfl.run("demo", "s3://bucket/run", resume=True),
        lambda: airfl.compare("demo", schemes=["pfels"], out="s3://bucket/run"),
        lambda: airfl.sweep("demo", {"scheme.ratio": [0.1]}, out="s3://bucket/run"),
    ):
        refusal(call, "--out: must be a folder, got the address s3://bucket/run")
    refusal(lambda: place_of(1, None, "cpu", None, "s3://x/y", 3, 1.0, 1.0), "--shared-dir: must be a folder")
    refusal(lambda: airfl.read_results("s3://bucket/run"), "s3://bucket/run: an address, not a folder")
    check_can_be_folder(tmp_path / "s3:" / "below")  # an absolute path is no address
    check_can_be_folder(Path("a:"))  # one letter is no protocol


def test_the_current_folder_has_gone(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another process removes it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setitem(COMMANDS, command, [word.replace("runs", str(tmp_path / "runs")) for word in COMMANDS[command]])
    assert "the current folder has been removed; change to one that exists" in refused(command, "new")


def test_names_of_files(tmp_path: Path) -> None:
    """Long enough to be a name, but not for the one beside that is written first; a pipe, a folder in its place."""
    refusal(lambda: check_can_be_file(tmp_path / ("x" * 250)), "File name too long")
    check_can_be_file(tmp_path / ("x" * 200))
    os.mkfifo(tmp_path / "free")
    for name in ("free", "runs"):
        told = partial(check_can_be_file, tmp_path / name, "--copy-to")
        refusal(told, "is not a regular file; choose another --copy-to")
    check_can_be_folder(tmp_path / "a" / "b" / "c")


def test_a_label_that_is_too_long_for_a_folder(tmp_path: Path) -> None:
    row = f'[[compare]]\nlabel = "{"a" * 300}"\n"scheme.name" = "pfels"\n'
    (tmp_path / "free").write_text(f"[local]\nsteps = 1\nclip_norm = 1.0\n{row}")
    refusal(lambda: AIRFL(["compare", "free", "--out", "new"], standalone_mode=False), "File name too long")


def test_what_the_system_refuses_later_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    denied = Mock(side_effect=PermissionError(13, "Permission denied", "runs/here"))
    monkeypatch.setattr(sys, "argv", ["airfl", "configs"])
    monkeypatch.setattr("airfl.storage.resources.configurations", denied)
    monkeypatch.setattr("airfl.cli.give_libraries_a_place", lambda environment: None)
    monkeypatch.setattr(airfl.cli, "_handle_signals", lambda handler: None)
    with pytest.raises(SystemExit) as ended:
        airfl.cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "airfl: runs/here: Permission denied (AIRFL_TRACEBACK=1 shows the traceback)\n"


@pytest.fixture
def everybody_s() -> Iterator[Path]:
    """A folder that other users may look into; pytest's are for one alone."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_user_who_may_not_write_there(everybody_s: Path) -> None:
    """Real permissions, which bind only those who are not root."""
    for name, mode in (("free", 0o777), ("here", 0o755), ("runs", 0o755)):
        everybody_s.joinpath(name).mkdir()
        everybody_s.joinpath(name).chmod(mode)
    everybody_s.joinpath("runs", "trace.h5").touch()
    code = (
        "from airfl.cli.app import app\nimport airfl.cli, sys\nfrom airfl.errors import UserError\n"
        f"for words in {[[*words, 'here/x.html'] for words in COMMANDS.values()]!r}:\n"
        "    try: app(words, standalone_mode=False)\n"
        "    except UserError as error: print(error)\n"
        "    else: sys.exit('written: ' + ' '.join(words))\n"
    )
    done = as_nobody(everybody_s, code, HOME=str(everybody_s))
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == len(COMMANDS)
    own = [line for line in told if line.startswith("here") and "is not writable by this user" in line]
    assert len(own) == len(COMMANDS), set(told) - set(own)
