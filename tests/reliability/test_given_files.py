"""A pipe, a device, a folder, a socket, a file too large, or nothing, given as a file: one line, without waiting."""

import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.main import get_command

from airfl.analysis.results.digest import digest_of
from airfl.analysis.results.find import find_runs
from airfl.analysis.results.sweep_folder import open_folder, read_listing
from airfl.cli.app import app
from airfl.config import load_rows, load_settings
from airfl.config.load import settings_file
from airfl.core.checkpoint.fingerprint import checksum, recorded_files
from airfl.exports.tfrecord import parser
from airfl.learning.tasks.datasets import load_dataset
from airfl.learning.tasks.downloads.download import get
from airfl.report.page.page import check_target
from airfl.storage import input_files as given
from airfl.storage.input_files import open_regular, read_regular
from airfl.storage.output_files import DIGEST_NAME
from airfl.storage.trace import open_trace
from airfl.study.rows import check_comparison
from channels.fading import read_replay
from tests.conftest import small_settings
from tests.reliability.finished import rows
from tests.reliability.hangs import within_seconds
from tests.reliability.refusals import refusal


@pytest.fixture(autouse=True)
def _nothing_is_waited_for() -> Iterator[None]:
    with within_seconds():
        yield


AIRFL = get_command(app)


def listening(path: Path) -> None:
    with tempfile.TemporaryDirectory() as short:  # a socket's name has room for 107 bytes
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"{short}/s")
        Path(short, "s").rename(path)


def huge(path: Path, size: int = 1 << 40) -> None:
    path.touch()
    os.truncate(path, size)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "a pipe, not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a device, not a regular file"),
    "folder": (Path.mkdir, "a folder, not a regular file"),
    "socket": (listening, "a socket, not a regular file"),
    "huge": (huge, "larger than"),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_settings(kind: str, tmp_path: Path) -> None:
    """Whatever reads them: run, compare, tune, config --toml."""
    make, line = KINDS[kind]
    file = tmp_path / "settings.toml"
    make(file)
    for read in (load_settings, load_rows, settings_file):
        assert refusal(partial(read, file)).startswith(f"{file}: cannot be read ({line}")
    out = ["--out", str(tmp_path / "out")]
    tune = ["tune", "local.learning_rate=0.1,0.2", *out]
    for command, *rest in (["run", *out], ["compare", *out], tune, ["privacy"]):
        assert line in refusal(partial(AIRFL, [command, str(file), *rest], standalone_mode=False))
    assert not (tmp_path / "out").exists()


def test_settings_of_many_devices_are_not_too_large(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("# " + "x" * (given.SETTINGS_BYTES - 100) + "\n[local]\nsteps = 1\nclip_norm = 1.0\n")
    assert load_settings(file).local.steps == 1


def test_lists_that_airfl_writes(kind: str, tmp_path: Path) -> None:
    make, line = KINDS[kind]
    make(tmp_path / "sweep.json")
    # What is a link is refused as one, where airfl would write.
    where_written = "is a link" if (tmp_path / "sweep.json").is_symlink() else line
    assert line in refusal(lambda: read_listing(tmp_path))
    assert where_written in refusal(lambda: open_folder(tmp_path))
    rows = tmp_path / "rows"
    rows.mkdir()
    make(rows / "rows.json")
    assert "not a list of rows" in refusal(lambda: find_runs([rows]))
    assert where_written in refusal(lambda: check_comparison(rows, ["a"], resume=True))
    make(tmp_path / "features.json")
    assert "not the features.json" in refusal(lambda: parser(tmp_path / "features.json"))


def test_traces_and_what_is_kept_beside_them(kind: str, tmp_path: Path) -> None:
    file, kept = tmp_path / "trace.h5", tmp_path / DIGEST_NAME
    for path in (file, kept):
        KINDS[kind][0](path)
    assert str(file) in refusal(lambda: open_trace(tmp_path))
    assert str(file) in refusal(lambda: digest_of(tmp_path))
    kept.rmdir() if kind == "folder" else kept.unlink()
    kept.write_text(json.dumps({"sha256": "", "version": 2, "trace": [0, 0]}))
    assert str(file) in refusal(lambda: digest_of(tmp_path))


def test_replay_files_and_a_report_in_their_place(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "gains.h5"
    KINDS[kind][0](file)
    line = refusal(lambda: read_replay(file, rounds=1, devices=1), f"^{file}: ", ValueError)
    assert ("not a regular file" in line) == (kind in ("pipe", "device", "socket"))
    refusal(lambda: read_replay(tmp_path / ("x" * 300), rounds=1, devices=1), "File name too long", ValueError)
    assert str(file) in refusal(lambda: check_target(file))


def test_a_replay_file_larger_than_memory_is_summed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gains.h5"
    huge(file, 1 << 26)
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read at once"))
    settings = small_settings("channel.fading=replay", f"channel.replay_file='{file}'")
    assert checksum(rows(), recorded_files(settings)) != checksum(rows(), recorded_files(small_settings()))


def test_a_download_is_not_put_into_a_pipe(tmp_path: Path) -> None:
    part = tmp_path / "cifar10" / "cifar-10-binary.tar.gz.airfl-part"
    part.parent.mkdir()
    os.mkfifo(part)
    line = refusal(lambda: get("cifar10", tmp_path))
    assert line == f"{part}: is not a file; move it away and get the data set again"


def test_data_folders_of_such_files(kind: str, tmp_path: Path) -> None:
    """There is no data set in them, or it is refused; nothing is waited for."""
    (tmp_path / "mnist").mkdir()
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "SHA256SUMS"):
        KINDS[kind][0](tmp_path / "mnist" / name)
    assert "mnist" in refusal(lambda: load_dataset("mnist", [tmp_path]))


def test_what_takes_its_place_after_the_first_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look is at what was opened."""
    os.mkfifo(tmp_path / "file")
    (tmp_path / "regular").write_bytes(b"1234")
    about = os.stat(tmp_path / "regular")
    monkeypatch.setattr(os, "stat", lambda path: about)
    with pytest.raises(OSError, match="a pipe, not a regular file"):
        open_regular(tmp_path / "file")
    assert read_regular(tmp_path / "regular", 4) == b"1234"
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_regular(tmp_path / "regular", 3)
