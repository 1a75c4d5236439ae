"""The worked examples of docs/extending, followed in an empty folder as a reader would. Files are written, and
commands, scripts and tests are run, with airfl installed from its wheel (`make test-all`), or in short form from the
checkout."""

import ast
import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import airfl
from tests import processes
from tests.conftest import ROOT, SMALL
from tests.documentation.blocks import DOCS, Block, blocks, commands
from tests.documentation.wheel import Installed

PAGES = {
    "extending/scheme": "terngrad",
    "extending/accountant": "zcdp",
    "extending/fading-law": "weibull",
    "extending/policy": "capped",
    "extending/channel": "measured",
    "extending/server-rule": "fedavgm",
    "extending/selection": "resting",
    "extending/model": "shells",
}
"""Page, and what its example is called: NAME.py, NAME.toml and test_NAME.py."""
TAKE_SETTINGS = ("run", "sweep")
QUICK = ("budget", "privacy")
"""Commands that the short form runs, over few rounds, with `check` of what is no scheme: that takes a quarter of a
minute."""
SCHEMES = ("terngrad", "fedavgm")


Job = Callable[[Path, str, Any], str]
"""As `Installed` is called."""
TESTS = "import sys, pytest\nsys.exit(pytest.main(['-p', 'no:cacheprovider', '-rA', *sys.argv[1:]]))\n"


def here(folder: Path, kind: str, given: Any) -> str:
    """What a job prints that is done with the checkout's packages."""
    if kind == "airfl":
        done = [processes.airfl(*words, cwd=folder, COLUMNS="200") for words in given]
    else:
        file = folder / "entered.py"
        file.write_text(TESTS if kind == "pytest" else given)
        done = [processes.script(file, *(given if kind == "pytest" else ()), cwd=folder)]
    for one in done:
        assert one.returncode == 0, f"{given} ended with {one.returncode}:\n{one.stdout}{one.stderr}"
    return "".join(one.stdout + one.stderr for one in done)


@pytest.mark.full
def test_the_pages_do_what_they_say(installed: Installed, tmp_path: Path) -> None:
    """Their blocks in order, each page in a folder of its own."""
    for page, name in PAGES.items():
        follow(page, name, installed, tmp_path, whole=True)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says_in_short(page: str, tmp_path: Path) -> None:
    """Without runs and sweeps, see `QUICK`."""
    follow(page, PAGES[page], here, tmp_path, whole=False)


def follow(page: str, name: str, do: Job, tmp_path: Path, whole: bool) -> None:
    """Write the files of a page, run the rest in order, and find what the page says it prints."""
    found, folder = blocks(DOCS / f"{page}.md"), tmp_path / name
    folder.mkdir()
    files = [block for block in found if block.language in ("python", "toml") and not is_script(block)]
    assert [write(block, folder) for block in files] == [f"{name}.py", f"{name}.toml", f"test_{name}.py"]
    for words in (["check"], ["format", "--check"]):
        style = [sys.executable, "-m", "ruff", *words, "--config", str(ROOT / "pyproject.toml"), "--no-cache", "."]
        done = subprocess.run(style, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
    printed: str | None = None
    for block in found:
        if block.language == "text":
            assert printed is None or holds(printed, block)
        elif block.language == "sh":
            words = [shlex.split(line) for line in commands(block.text)]
            printed = run(words, name, do, folder, whole)
        elif block not in files:
            printed = do(folder, "script", block.text)


def run(listed: list[list[str]], name: str, do: Job, folder: Path, whole: bool) -> str | None:
    """The commands of a block; what they print, None where the short form has changed or left out some."""
    if listed[0][0] == "pytest":
        ((_, *words),) = listed
        report = do(folder, "pytest", words)
        assert report.count("\nPASSED ") > 3, report
        return report
    assert all(words[0] == "airfl" for words in listed)
    done, short = [], False
    for _, command, *words in listed:
        if whole or (command == "check" and name not in SCHEMES):
            done.append([command, *words, *(SMALL if command in TAKE_SETTINGS else ())])
        else:
            short = True
            done += [[command, *words, "run.rounds=3"]] if command in QUICK else []
    printed = do(folder, "airfl", done) if done else ""
    return None if short else printed


def squeezed(text: str) -> str:
    """With one space where there are several: how wide a table's columns are depends on all of its rows."""
    return re.sub(" +", " ", text).strip()


def holds(printed: str, block: Block) -> bool:
    """Whether it has the lines of a text block, in order."""
    printed = squeezed(printed)
    for line in map(squeezed, block.text.splitlines()):
        assert line in printed, f"{block.place}: {line!r} is not, or not there, in\n{printed}"
        printed = printed.partition(line)[2]
    return True


def test_the_environment_that_is_asked_for_has_what_the_tests_import() -> None:
    """The suite, the tests of the pages, and those that the index names: of airfl's packages and the extra's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["test"]
    there = {re.split(r"[\[<>=;]", line)[0].strip().replace("-", "_") for line in [*project["dependencies"], *extra]}
    files = [*(ROOT / "tests" / "conformance").glob("*.py"), *(ROOT / "tests").glob("*.py")]
    files += [ROOT / "tests" / "unit" / "test_budget.py", ROOT / "tests" / "laws" / "test_fading.py"]
    sources = [file.read_text() for file in files]
    ours = {"airfl", "channels", "tests", "selenium"}
    wanted = set().union(*map(imported, sources)) - set(sys.stdlib_module_names) - ours
    assert "hypothesis" in wanted
    assert wanted <= there
    index = (DOCS / "extending" / "index.md").read_text()
    assert 'pip install -c constraints.txt -e ".[test]"' in index
    for command in ("pytest", "ruff", "mypy"):
        assert f"{command} " in index or f"{command}\n" in index
        assert command in there


def test_a_test_run_without_the_extra_names_it(tmp_path: Path) -> None:
    """pytest alone is soon there; what the suite needs beside is named, with the line that installs it."""
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    conftest = (ROOT / "tests" / "conftest.py").read_text()
    (tmp_path / "tests" / "conftest.py").write_text(conftest.replace('"hypothesis"', '"no_hypothesis", "no_other"'))
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 4
    line = ended.stderr.splitlines()[-1]
    assert f"the tests need no_hypothesis, no_other, which this environment ({sys.prefix}) lacks" in line
    assert line.endswith('python -m pip install -c constraints.txt -e ".[test]"')


def imported(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def write(block: Block, folder: Path) -> str:
    """Write the file of the page's last "Write `NAME`" before the block; its name."""
    above = "\n".join(block.page.read_text().splitlines()[: block.line - 1])
    name = str(re.findall(r"Write\s+`(\w+\.(?:py|toml))`", above)[-1])
    assert not (folder / name).exists(), f"{block.place}: {name} is there already"
    (folder / name).write_text(block.text)
    return name


def is_script(block: Block) -> bool:
    """Whether a block is entered into Python, and is no file, which begins with what it is."""
    return block.language == "python" and not block.text.startswith('"""')


def public_imports(source: str) -> set[tuple[str, str]]:
    """The modules of airfl that a text imports names from, and the names."""
    lines = re.findall(r"^\s*from (airfl[\w.]*) import (\([^)]*\)|[^\n]*)", source, re.MULTILINE)
    return {(module, name) for module, names in lines for name in re.findall(r"\w+", names)}


def test_examples_import_public_names() -> None:
    """A reader's file goes on working when modules inside the rooms are divided or renamed."""
    files = [*DOCS.glob("extending/*.md"), DOCS / "own-task.md", *DOCS.glob("tutorials/*.py")]
    found = {one for file in files for one in public_imports(file.read_text(encoding="utf-8"))}
    assert ("airfl.schemes", "Recipe") in found
    for module, name in found:
        public = airfl.__all__ if module == "airfl" else dir(importlib.import_module(module))
        assert name in public, f"from {module} import {name}"
        assert module == "airfl" or module.split(".")[1] in airfl.__all__, f"{module} is not public"


def test_the_reference_describes_what_examples_import() -> None:
    """Classes and functions of the modules that parts are made of; registered parts are listed under their kinds."""
    reference = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\.\. auto(?:class|function):: (?:[\w.]+\.)?(\w+)$", reference, re.MULTILINE))
    files = [*DOCS.glob("extending/*.md"), *DOCS.glob("tutorials/*.py")]
    found = {one for file in files for one in public_imports(file.read_text(encoding="utf-8"))}
    rooms = ("airfl.schemes", "airfl.server", "airfl.stages", "airfl.streams")
    needed = {name for module, name in found if module in rooms and not name.isupper()}
    assert {"Recipe", "Averaging", "Coder", "Purpose"} <= needed
    assert needed <= described


@pytest.mark.parametrize(
    ("public", "inside"),
    [
        ("airfl:parameter", "channels.part:parameter"),
        ("airfl:Store", "airfl.runtime.store:Store"),
        ("airfl.streams:Purpose", "airfl.runtime.streams:Purpose"),
        ("airfl.server:Averaging", "airfl.learning.server:Averaging"),
        ("airfl.server:learning_rate", "airfl.learning.schedule:learning_rate"),
        ("airfl.stages:of_each_device", "airfl.uplinks.stages.device_noise:of_each_device"),
        ("airfl.schemes:Problem", "airfl.schemes.recipe:Problem"),
        ("airfl.schemes:ClientRelease", "airfl.schemes.release:ClientRelease"),
        ("airfl.schemes:LOCAL_SGD", "airfl.schemes.keys:LOCAL_SGD"),
        ("airfl.accountants:unsupported", "airfl.privacy.accountants.accountant:unsupported"),
        ("airfl.accountants:SENSITIVITY", "airfl.privacy.accountants.closed_form:SENSITIVITY"),
        ("airfl.selection:Array", "airfl.selection.rule:Array"),
    ],
)
def test_public_names_are_what_the_older_paths_have(public: str, inside: str) -> None:
    one, other = (path.split(":") for path in (public, inside))
    assert getattr(importlib.import_module(one[0]), one[1]) is getattr(importlib.import_module(other[0]), other[1])
