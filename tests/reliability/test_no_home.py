"""Users without a home folder or an entry in the user database, or with a read-only home folder."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from airfl.cli.checkup.places import cache_folders
from airfl.storage import cache
from tests.reliability.nobody import as_nobody

HOMES = ("HOME", "XDG_CACHE_HOME", "AIRFL_CACHE", "MPLCONFIGDIR")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    monkeypatch.setattr(cache, "_replaced", {})
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("nobody")
def test_without_a_home_things_last_as_long_as_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)  # torch sets it once it has compiled
    folder = cache.cache_folder()
    assert folder == cache.temporary_folder() / "airfl"
    assert folder.parent.is_dir()
    assert not list(tmp_path.iterdir())  # no folder called ~
    assert cache.lasting_folder() == (cache.NOWHERE, False)
    environment: dict[str, str] = {}
    cache.give_libraries_a_place(environment)
    assert environment["XDG_CACHE_HOME"] == str(cache.temporary_folder())
    assert Path(environment["MPLCONFIGDIR"]).parent == cache.temporary_folder()
    places = {one.holds.partition(" ")[0]: one for one in cache_folders()}
    assert (places["decoded"].path, places["decoded"].writable) == ("~/.cache/airfl", False)
    assert places["compiled"].path.endswith(f"torchinductor_uid_{os.getuid()}")


@pytest.mark.usefixtures("nobody")
def test_a_home_that_can_be_written_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    environment: dict[str, str] = {}
    cache.give_libraries_a_place(environment)
    assert not environment
    assert cache.cache_folder() == tmp_path / ".cache" / "airfl"
    assert cache.lasting_folder() == (tmp_path / ".cache" / "airfl", True)
    monkeypatch.setattr(cache, "may_write", lambda folder: False)
    cache.give_libraries_a_place(environment)
    assert set(environment) == {"XDG_CACHE_HOME", "MPLCONFIGDIR"}
    monkeypatch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    assert cache.cache_folder() == cache.temporary_folder() / "airfl"
    assert cache.lasting_folder() == (tmp_path / ".cache" / "airfl", False)


def test_where_no_temporary_folder_can_be_made_either(monkeypatch: pytest.MonkeyPatch) -> None:
    none = FileNotFoundError("No usable temporary directory found")
    monkeypatch.setattr("tempfile.mkdtemp", Mock(side_effect=none))
    assert not cache.can_be_written(cache.temporary_folder.__wrapped__() / "airfl")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder that anybody may write into."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o777)
    return tmp_path / "mine"


def test_a_stranger_s_libraries_complain_of_nothing(mine: Path) -> None:
    """What they keep of fonts goes where it may, and nothing goes where the process is."""
    code = (
        "import os; from airfl.storage.cache import give_libraries_a_place; give_libraries_a_place(os.environ); "
        "import matplotlib.font_manager"
    )
    done = as_nobody(mine, code, without=HOMES)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(mine.iterdir())


# That a home which cannot be written is like none is what test_a_home_that_can_be_written_is_left_alone holds.
@pytest.mark.full
@pytest.mark.parametrize("home", [{}, {"HOME": "/"}, {"HOME": "/nonexistent"}])
def test_a_stranger_asks_what_a_run_s_privacy_is_worth(home: dict[str, str], mine: Path) -> None:
    words = ("privacy", "demo", "run.rounds=2", "--plot", "figures")
    done = as_nobody(mine, "from airfl.cli import main; main()", *words, without=HOMES, **home)
    assert done.returncode == 0, done.stderr
    assert "dominating pair" in done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 2, lines  # the verdict, and what was written; nothing of Matplotlib's or fontconfig's
    assert lines[1].startswith("written: ")
    assert [file.name for file in mine.iterdir()] == ["figures"]
