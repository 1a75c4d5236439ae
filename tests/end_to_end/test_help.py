"""Help texts fit on a screen without truncation, and every example in them runs."""

import inspect
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer

from airfl.cli import COMMANDS, app
from airfl.learning.tasks.downloads import download
from airfl.report.live import WatchServer
from tests.conftest import SMALL
from tests.small_data import estimate_shortly

COLUMNS = 80
LINES = 41

# What an example is shortened by; a later value takes the place of an earlier one.
SHORTER = {
    "run": SMALL,
    "compare": (*SMALL, "--seeds", "1"),
    "sweep": (*SMALL, "run.rounds=1", "--seeds", "1"),
    "tune": (*SMALL, "run.rounds=1"),
    "budget": SMALL,
    "theory": SMALL,
    "audit": (*SMALL, "--trials", "20", "--canaries", "5", "--attack", "round"),
    "bench": (*SMALL, "--rounds", "1"),
}


def helps() -> dict[str, str]:
    """Of every command and group its --help, at 80 columns."""
    found = {}
    waiting = [("airfl", typer.main.get_command(app), None)]
    while waiting:
        path, command, parent = waiting.pop()
        context = command.context_class(
            command, info_name=path.split()[-1], parent=parent, terminal_width=None, max_content_width=COLUMNS
        )
        found[path] = command.get_help(context)
        waiting += [(f"{path} {name}", one, context) for name, one in getattr(command, "commands", {}).items()]
    return found


def examples(text: str) -> list[str]:
    """The command lines below `Example`, those that go on after a backslash as one."""
    _, _, below = text.partition("\nExample:\n")
    return [line.strip() for line in below.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.fixture(scope="module", autouse=True)
def _screen() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(COLUMNS))
        yield


def test_every_help_fits_a_screen() -> None:
    found = helps()
    assert {"airfl", "airfl run", "airfl doctor", "airfl data get"} <= set(found)
    for path, text in found.items():
        lines = text.splitlines()
        assert len(lines) <= LINES, path
        assert max(map(len, lines)) <= COLUMNS, path
        assert "{" not in text, path  # CONFIG, not {config}


def test_the_first_help_lists_every_command_whole_and_says_where_to_begin() -> None:
    text = helps()["airfl"]
    assert "airfl run demo --out runs/first" in text
    for heading, listed in COMMANDS.items():
        assert f"\n{heading}:\n" in text
        for command, _ in listed:
            about = inspect.cleandoc(command.__doc__ or "")
            assert f"  {command.__name__.ljust(8)}  {about}\n" in text
    for told in ("Exit codes: 0", "AIRFL_DATA", "AIRFL_CACHE", "AIRFL_TRACEBACK", "--install-completion"):
        assert told in text


def test_usage_says_what_must_be_given() -> None:
    found = helps()
    assert found["airfl run"].startswith("Usage: airfl run CONFIG [KEY=VALUE ...] --out DIR [OPTIONS]\n")
    assert found["airfl results"].startswith("Usage: airfl results DIR ... [OPTIONS]\n")
    assert found["airfl privacy"].startswith("Usage: airfl privacy [CONFIG] [KEY=VALUE ...] [OPTIONS]\n")


def test_every_command_has_an_example_of_itself() -> None:
    for path, text in helps().items():
        if path not in ("airfl", "airfl data", "airfl channel"):
            assert examples(text), path
            assert all(line.startswith(path) for line in examples(text)), path


def shortened(example: str) -> list[str]:
    """The words after `airfl`, with what makes it quick."""
    words = shlex.split(example)[1:]
    if words[0] == "privacy" and "--rounds" not in words:
        return [*words, *SMALL]
    return [*words, *SHORTER.get(words[0], ())]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with nothing but a user's parts, and the run and the sweep that other examples look at."""
    folder = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("AIRFL_DATA", raising=False)
        patch.setattr(download, "get", lambda name, target, report: [target / name])
        patch.setattr(WatchServer, "serve_forever", lambda server: None)  # which would wait for Ctrl-C
        found = helps()
        (folder / "my_parts.py").write_text(MY_PARTS)
        (folder / "street.csv").write_text("device,gain_db\n0,-80\n1,-90\n")
        np.save(folder / "channel.npy", np.ones((2, 3)))
        for path in ("airfl run", "airfl sweep"):
            app(shortened(examples(found[path])[0]), standalone_mode=False)
        app(shlex.split("export runs/first --to bundle --out runs/first-bundle"), standalone_mode=False)
        yield folder


MY_PARTS = """
from airfl.schemes import FedAvg

class Mine(FedAvg):
    name = "mine"
"""
# What an example leaves behind, or a word of what it prints.
OUTCOMES = {
    "run": "runs/first/trace.h5",
    "compare": "runs/two/comparison.csv",
    "sweep": "runs/ratios/results.csv",
    "tune": "runs/tuning/tuned.toml",
    "budget": "energy",
    "privacy": "accountant",
    "theory": "as printed",
    "audit": "confidence",
    "bench": "rounds/s",
    "check": "checks passed",
    "watch": "http://127.0.0.1:",
    "results": "accuracy",
    "report": "runs/ratios/report.html",
    "figures": "runs/figures/accuracy-ratio.pdf",
    "plot": "runs/first-plots/learning.png",
    "export": "runs/first-matlab",
    "verify": "bit for bit",
    "configs": "demo",
    "config": '"strict": true',
    "schemes": "pfels",
    "models": "mlp",
    "datasets": '"name": "cifar10"',
    "doctor": "compiler",
    "data get": "data/cifar10",
    "data path": "searched",
    "channel import": "street.h5",
    "channel show": "figures/gains.png",
    "channel kinds": "base_station",
}


def test_every_command_is_tried() -> None:
    found = {path.removeprefix("airfl ") for path in helps()} - {"airfl", "data", "channel"}
    assert found == set(OUTCOMES)


@pytest.mark.parametrize("command", OUTCOMES)
def test_every_example_runs(
    command: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    estimate_shortly(monkeypatch)
    outcome = OUTCOMES[command]
    for example in examples(helps()[f"airfl {command}"]):
        if command not in ("run", "sweep"):
            assert not app(shortened(example), standalone_mode=False)
        told = capsys.readouterr()
        assert (here / outcome).exists() or outcome in told.out.lower() + told.err, example
    assert os.getcwd() == str(here)
