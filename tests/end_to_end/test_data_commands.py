"""`airfl data path`, `airfl data get` and --data-dir."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airfl.cli.data import get
from airfl.learning.tasks.downloads import download
from tests.conftest import DEMO, ROOT, SMALL
from tests.processes import airfl


@pytest.fixture(autouse=True)
def _no_folder_of_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFL_DATA", raising=False)


def test_path_says_where_and_what(tmp_path: Path) -> None:
    told = airfl("data", "path", "--data-dir", tmp_path, "--json", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    answer = json.loads(told.stdout)
    assert answer["folders"] == [str(tmp_path), str(tmp_path / "data"), str(ROOT / "data")]
    assert answer["found"]["fashion-mnist-sample"] == str(ROOT / "data" / "fashion-mnist-sample")
    assert answer["cache"] == os.environ["AIRFL_CACHE"]
    plain = airfl("data", "path", "--data-dir", tmp_path / "none").stdout
    assert f"searched: {tmp_path / 'none'} (does not exist)" in plain


def test_path_tells_what_is_wrong_with_half_a_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    (folder / "train-images-idx3-ubyte").touch()
    found = json.loads(airfl("data", "path", "--data-dir", tmp_path, "--json").stdout)["found"]
    assert "is missing" in found["mnist"]


def test_get_downloads_into_the_first_folder_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def pretend(name: str, target: Path, progress: Callable[[str, int, int | None], None]) -> list[Path]:
        asked.append((name, target))
        progress("file.gz", 1_000_000, 2_000_000)
        progress("file.gz", 2_000_000, 2_000_000)
        return [target / "file.gz"]

    monkeypatch.setattr(download, "get", pretend)
    monkeypatch.setenv("AIRFL_DATA", str(tmp_path / "named"))
    get("mnist", tmp_path / "chosen")
    get("mnist")
    assert asked == [("mnist", tmp_path / "chosen"), ("mnist", tmp_path / "named")]
    told = capsys.readouterr()
    assert told.out == ""
    assert "file.gz: 2.0 MB of 2.0" in told.err
    assert f"available: {tmp_path / 'chosen' / 'file.gz'}" in told.err
    assert "mnist: from ossci-datasets.s3.amazonaws.com, " in told.err
    assert "licence: MNIST: not stated with the files" in told.err


@pytest.mark.parametrize("command", ["run", "compare"])
def test_data_dir_comes_before_everything_else(command: str, tmp_path: Path) -> None:
    """A damaged copy there is found, although a good one lies in ./data."""
    shutil.copytree(ROOT / "data" / "fashion-mnist-sample", tmp_path / "fashion-mnist-sample")
    (tmp_path / "fashion-mnist-sample" / "SHA256SUMS").write_text("0  t10k-labels-idx1-ubyte.gz\n")
    done = airfl(command, DEMO, *SMALL, "--out", tmp_path / "out", "--data-dir", tmp_path)
    assert done.returncode == 2
    assert str(tmp_path / "fashion-mnist-sample" / "t10k-labels-idx1-ubyte.gz") in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", DEMO, *SMALL, "--out", "out"), "no such folder"),
        (("privacy", DEMO), "no such folder"),
        (("doctor",), "a file, not a folder"),
    ],
)
def test_a_data_dir_that_is_no_folder_is_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Other data would be taken, and nobody would know."""
    given = tmp_path / "given"
    if said == "a file, not a folder":
        given.touch()
    done = airfl(*words, "--data-dir", given, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"--data-dir {given}: {said}" in done.stderr
    assert not (tmp_path / "out").exists()
