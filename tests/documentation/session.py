"""Run the code blocks of a page in order in one folder, as a reader would."""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import airfl
from airfl import simulation
from airfl.analysis import budget, calculator
from airfl.cli import app
from airfl.config import Config, Overrides, Settings, load_settings
from airfl.config.load import read_tables, validate
from airfl.errors import UserError
from tests import processes
from tests.conftest import DEMO, ROOT, SMALL
from tests.documentation.blocks import Block, commands
from tests.processes import script, succeeded
from tests.radios import check_radio

TAKE_SETTINGS = ("run", "compare", "sweep", "tune", "audit", "bench", "theory")
FEW_ROUNDS = ("run.rounds=2",)
FEWER = {"audit": ("--trials", "20", "--canaries", "5"), "bench": ("--rounds", "1")}
"""What makes a command quick beside its settings; of an option that is given twice the latter holds."""
BESIDE = ("experiments", "data", "airfl", "channels", "tests", "Makefile", "pyproject.toml", "constraints.txt")
ELSEWHERE = re.compile(r"\s[>|&]")  # what only a shell can do
IMPORT_PATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))


@dataclass
class Session:
    """What the blocks of a page share: a folder, Python's names, what the last block printed."""

    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""

    def __post_init__(self) -> None:
        for name in BESIDE:
            (self.folder / name).symlink_to(ROOT / name)
        for name in ("docs", "runs"):
            (self.folder / name).mkdir()

    def run(self, block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
        if block.how == "file":
            assert "/" not in block.what, f"{block.place}: {block.what} is not in the folder of the page"
            (self.folder / block.what).write_text(block.text)
        if block.how == "in":
            # A block that another test runs: the test is there, and knows the page.
            assert (ROOT / block.what).is_file(), f"{block.place}: there is no {block.what}"
            return
        own = block.how == "with" or (block.how == "as" and "run.rounds=" in block.what)
        small = block.what.split() if block.how == "with" else () if own else SMALL
        text = f"{block.what}\n" if block.how == "as" else block.text
        out, refused = io.StringIO(), None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                LANGUAGES[block.language](self, text, small, monkeypatch)
            except UserError as error:
                if block.how != "refused":
                    raise
                refused = error
        if block.how == "refused":
            assert refused, f"{block.place}: it is not refused"
            out.write(f"airfl: {refused}\n")
        self.printed = out.getvalue()


def run_shell(session: Session, text: str, small: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`airfl` commands in this process, axes cut to two values; scripts in one of theirs; others by the shell."""
    del monkeypatch
    for command in commands(text):
        words = shlex.split(command, comments=True)
        if words[0] == "airfl" and "tfrecord" in words:
            done = processes.airfl(*words[1:], cwd=session.folder)
            assert done.returncode == 0, f"{command}: {done.stderr}"
        elif words[0] == "airfl" and not ELSEWHERE.search(command):
            more = small if words[1] in TAKE_SETTINGS else FEW_ROUNDS if is_of_settings(words) else ()
            fewer = FEWER.get(words[1], ()) if small is SMALL else ()
            if "--seeds" in words and small is SMALL:
                fewer = (*fewer, "--seeds", "2")
            code = app([*map(shorter, words[1:]), *more, *fewer], standalone_mode=False)
            assert not code, f"{command}: {code}"
        else:
            if words[0] == "python" and words[1].endswith(".py") and not ELSEWHERE.search(command):
                done = script(session.folder / words[1], *words[2:], cwd=session.folder)
            else:
                done = in_bash(command, session.folder)
            print(done.stdout, done.stderr)
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def in_bash(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": IMPORT_PATH, "PATH": with_our_python()}
    words = ["bash", "-ec", command]
    return subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def is_of_settings(words: Sequence[str]) -> bool:
    """Whether a budget or a privacy calculation is of settings, and not of bare numbers."""
    return words[1] in ("budget", "privacy") and not words[2].startswith("-")


def shorter(word: str) -> str:
    """At most two of an axis' values: the first two, or both ends of a range."""
    key, equals, values = word.partition("=")
    if not re.fullmatch(r"[a-z_]+\.[a-z_]+", key) or values.startswith("["):
        return word
    low, *rest = values.split(":")
    if len(rest) == 2 and rest[1] not in ("log", "linear"):
        return f"{key}={low},{rest[0]}"
    return f"{key}{equals}{','.join(values.split(',')[:2])}"


def with_our_python() -> str:
    """A search path on which `python` and `airfl` are the ones that run the tests."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def run_python(session: Session, text: str, small: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the page's names; what is named or loaded is given small settings. TensorFlow in a process of its own."""
    if "tensorflow" in text:
        (session.folder / "block.py").write_text(text)
        succeeded(script(session.folder / "block.py", cwd=session.folder))
        return

    def smaller(config: Config, overrides: Overrides = ()) -> Settings:
        found = load_settings(config, overrides)
        return load_settings(found, small) if isinstance(config, str | Path) else found

    for place in (airfl, simulation, budget, calculator):
        monkeypatch.setattr(place, "load_settings", smaller)
    exec(compile(text, "page", "exec"), session.names)


def check_toml(text: str) -> None:
    """The demo's settings with these in their place can be run; so can a whole file."""
    tables: dict[str, Any] = {name: table for name, table in read_tables(DEMO).items() if name != "compare"}
    given = tomllib.loads(text)
    given.pop("compare", None)
    if "plugins" in given:  # the commands after it, which allow them, run it
        return
    for section, values in given.items():
        tables[section] = {**tables.get(section, {}), **values}
    check_radio(validate(tables, source="the page"))


def run_matlab(session: Session, text: str, small: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    del small, monkeypatch
    octave = shutil.which("octave-cli") or shutil.which("octave")
    if octave is None:
        return
    (session.folder / "block.m").write_text(text)
    words = [octave, "--no-gui", "--quiet", "--norc", "block.m"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=session.folder, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr


LANGUAGES: dict[str, Callable[[Session, str, Sequence[str], pytest.MonkeyPatch], None]] = {
    "sh": run_shell,
    "python": run_python,
    "toml": lambda session, text, *_: check_toml(text),
    "matlab": run_matlab,
}
