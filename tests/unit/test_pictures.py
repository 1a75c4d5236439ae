"""The figures of docs/figures.md and the commands on that page."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from airfl.config.swept_values import split_axes
from airfl.report.budget import FILES as BUDGET
from airfl.report.paper.figures import find_figure
from airfl.study.sweeps.points import SweepPlan, build_points
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "figures.md"


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    return importlib.import_module("pictures")


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_every_picture_of_the_page_has_its_command_there(pictures: ModuleType) -> None:
    drawn = set()
    for words in pictures.commands(PAGE):
        if words[1] == "figures":
            assert option(words, "--out") == "docs/figures"
            for name in option(words, "--only").split(","):
                drawn |= {f"figures/{name}{suffix}" for suffix in find_figure(name).suffixes}
        if words[1] == "budget" and option(words, "--plot") == "docs/figures":
            drawn |= {f"figures/{name}" for name in BUDGET}
    shown = set(re.findall(r"!\[[^\]]*\]\(([^)]*)\)", PAGE.read_text()))
    assert len(shown) >= 8
    assert shown <= drawn
    assert all((PAGE.parent / name).exists() for name in drawn)


def test_the_sweeps_of_the_page_can_be_run(pictures: ModuleType) -> None:
    found = [words for words in pictures.commands(PAGE) if words[1] == "sweep"]
    assert len(found) >= 4
    made = set()
    for words in found:
        fixed, axes = split_axes([word for word in words[3:] if re.match(r"[a-z_]+\.[a-z_]+=", word)])
        plan = SweepPlan(axes, rows="--rows" in words, seeds=int(option(words, "--seeds")))
        assert len(build_points(Path(words[2]), fixed, plan)) >= 10
        made.add(option(words, "--out"))
    for words in pictures.commands(PAGE):
        if words[1] == "figures":
            assert {word for word in words if word.startswith("runs/")} <= made


def test_commands_stand_in_shell_blocks(pictures: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```text\nairfl figures DIR --out FOLDER\n```\n\n    airfl plot x\n\n"
        "```sh\n# a sweep\nairfl sweep a b.c=1,2 \\\n    --out runs/x   # why\npython x.py\n```\n"
    )
    assert pictures.commands(page) == [["airfl", "sweep", "a", "b.c=1,2", "--out", "runs/x"]]
    placed = pictures.placed(pictures.commands(page)[0], tmp_path, 2)
    assert placed[1:] == ["-m", "airfl", "sweep", "a", "b.c=1,2", "--out", str(tmp_path / "runs" / "x"), "--jobs", "2"]
