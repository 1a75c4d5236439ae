"""The tutorials of docs/tutorials: each asks a question, draws a figure, says what it shows and has three exercises.

What they say of their numbers stands beside an `assert` in the script, so a tutorial that runs to its end says what is
true. `make docs` runs all of them.
"""

import ast
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from tests.documentation.blocks import DOCS
from tests.documentation.wheel import Installed

SCRIPTS = {script.stem: script for script in sorted((DOCS / "tutorials").glob("*.py"))}
QUICK = ("plot_01_first_round",)
"""Those that run here in `make test`."""
IMPORTED = {"airfl", "channels", "h5py", "matplotlib", "numpy", "scipy", "torch", *sys.stdlib_module_names}
"""What a script may import: airfl, and what airfl needs."""
HEADING = re.compile(r"^# (?P<title>[^\n]+)\n# (?P<line>-{3,})$", re.MULTILINE)
EXERCISE = re.compile(r"^# (\d)\. \S", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of a script."""
    pieces = HEADING.split(text)
    for title, line in zip(pieces[1::3], pieces[2::3], strict=True):
        assert len(line) == len(title), f"the line under {title!r} has another length"
    return dict(zip(pieces[1::3], pieces[3::3], strict=True))


def test_the_tutorials_are_numbered() -> None:
    assert QUICK[0] in SCRIPTS
    numbers = [re.fullmatch(r"plot_(\d\d)_\w+", name) for name in SCRIPTS]
    assert all(numbers), SCRIPTS
    assert len({number[1] for number in numbers if number}) == len(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_tutorial_has_a_question_a_figure_an_answer_and_three_exercises(name: str) -> None:
    text = SCRIPTS[name].read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    title, line, *_ = docstring.splitlines()
    assert title.endswith("?")
    assert line == "=" * len(title)
    found = sections(text)
    assert not re.search(r"^# -{3,} ", text, re.MULTILINE), "text stands on the line under a heading"
    assert "plt.show()" in text
    assert "\nassert " in found["What it shows"]
    assert list(found)[-1] == "Exercises"
    assert EXERCISE.findall(found["Exercises"]) == ["1", "2", "3"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_tutorial_needs_nothing_but_airfl(name: str) -> None:
    text = SCRIPTS[name].read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= IMPORTED
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] in IMPORTED
    assert "default_rng()" not in text
    assert "__main__" not in text


def test_all_of_them_are_on_the_site() -> None:
    assert "glob: gallery/plot_*" in (DOCS / "_site" / "toc.yml").read_text()


@pytest.mark.parametrize("name", QUICK)
def test_a_tutorial_says_what_is_true_and_draws_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bool] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AIRFL_DATA", raising=False)
    monkeypatch.setattr(plt, "show", lambda: drawn.append(any(axes.has_data() for axes in plt.gcf().axes)))
    with plt.style.context("default"), plt.rc_context({"backend": "agg"}):
        exec(compile(SCRIPTS[name].read_text(), name, "exec"), {"__name__": "__main__"})
    plt.close("all")
    assert drawn
    assert all(drawn)
    assert not list(tmp_path.iterdir())


@pytest.mark.full
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_tutorial_runs_from_the_wheel(name: str, installed: Installed, tmp_path: Path) -> None:
    installed(tmp_path, "script", SCRIPTS[name].read_text())
    assert not list(tmp_path.iterdir())
