"""airfl data path and get, and --data-dir, as a user has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airfl.cli.data import get
from airfl.tasks.downloads import download
from tests.conftest import DEMO, ROOT, SMALL


def airfl(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The command line without AIRFL_DATA."""
    environment = {name: value for name, value in os.environ.items() if name != "AIRFL_DATA"}
    command = [sys.executable, "-m", "airfl", *arguments]
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


def test_path_says_where_and_what(tmp_path: Path) -> None:
    told = airfl("data", "path", "--data-dir", str(tmp_path), "--json", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    answer = json.loads(told.stdout)
    assert answer["folders"] == [str(tmp_path), str(tmp_path / "data"), str(ROOT / "data")]
    assert answer["found"]["fashion-mnist-sample"] == str(ROOT / "data" / "fashion-mnist-sample")
    assert answer["cache"] == os.environ["AIRFL_CACHE"]
    plain = airfl("data", "path", "--data-dir", str(tmp_path / "none")).stdout
    assert f"looked in: {tmp_path / 'none'} (not there)" in plain


def test_path_tells_what_is_wrong_with_half_a_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    (folder / "train-images-idx3-ubyte").touch()
    found = json.loads(airfl("data", "path", "--data-dir", str(tmp_path), "--json").stdout)["found"]
    assert "is missing" in found["mnist"]


@pytest.mark.parametrize(
    ("name", "says"), [("femnist", "preprocess.sh"), ("cifar", "did you mean cifar10"), ("../evil", "there is no")]
)
def test_what_cannot_be_had_is_said_in_one_line(name: str, says: str, tmp_path: Path) -> None:
    done = airfl("data", "get", name, "--data-dir", str(tmp_path / "new"))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "new").exists()


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
    assert f"there now: {tmp_path / 'chosen' / 'file.gz'}" in told.err
    assert "mnist: from ossci-datasets.s3.amazonaws.com, " in told.err
    assert "licence: MNIST: not stated with the files" in told.err


@pytest.mark.parametrize("command", ["run", "compare"])
def test_data_dir_comes_before_everything_else(command: str, tmp_path: Path) -> None:
    """A damaged copy there is found, although a good one lies in ./data."""
    shutil.copytree(ROOT / "data" / "fashion-mnist-sample", tmp_path / "fashion-mnist-sample")
    (tmp_path / "fashion-mnist-sample" / "SHA256SUMS").write_text("0  t10k-labels-idx1-ubyte.gz\n")
    done = airfl(command, str(DEMO), *SMALL, "--out", str(tmp_path / "out"), "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert str(tmp_path / "fashion-mnist-sample" / "t10k-labels-idx1-ubyte.gz") in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_a_data_set_that_is_nowhere_tells_how_to_get_it(tmp_path: Path) -> None:
    settings = ("task.dataset=cifar10", "task.model=vgg11", "run.rounds=1")
    done = airfl("run", str(DEMO), *settings, "--out", str(tmp_path / "out"), cwd=tmp_path)
    assert done.returncode == 2
    assert "airfl data get cifar10" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_model_that_does_not_fit_is_refused_before_any_data_is_read(command: str, tmp_path: Path) -> None:
    done = airfl(command, str(DEMO), "task.dataset=cifar10", "--out", str(tmp_path / "out"), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("airfl: task.model: 'mlp' takes inputs of shape (1, 28, 28)")
    assert "fitting: cnn-cifar10, vgg11" in done.stderr
    assert len(done.stderr.splitlines()) == 1
