"""The worked examples of docs/extending, done as their reader would: those of a file of one's own in a folder that has
nothing else, with the wheel installed; the others in a copy of the packages. The files are written, the lines entered,
commands and tests run, the conformance suite too."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL
from tests.documentation.blocks import DOCS, Block, blocks, commands
from tests.packaging.conftest import built, installed
from tests.packaging.environments import Environment, command

__all__ = ["built", "installed"]  # fixtures

EXAMPLES = ("fading-law",)
OUTSIDE = {"scheme": "terngrad", "accountant": "zcdp", "selection": "resting"}
"""The pages whose example is a file outside of any clone, and what it is called."""
COMMANDS = {
    "scheme": {"check", "budget", "run", "sweep", "results"},
    "accountant": {"check", "privacy", "run"},
    "selection": {"check", "privacy", "run"},
}
outside_pages = pytest.mark.parametrize("page", OUTSIDE)
COPIED, LINKED = ("airfl", "channels", "tests"), ("data", "experiments")
TAKE_SETTINGS = ("run", "sweep")
RUN_ALL = """
import json, sys
from airfl.cli import app
for words in json.loads(sys.argv[1]):
    if code := app(words, standalone_mode=False):
        sys.exit(f"{words}: {code}")
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which all the pages have been followed."""
    folder = tmp_path_factory.mktemp("clone")
    copy_packages(folder)
    written = []
    for name in EXAMPLES:
        found = blocks_of(name)
        assert {block.language for block in found} == {"python", "diff", "sh", "text"}
        written += [write(block, folder) for block in found if block.language == "python"]
        written += [enter(block, folder) for block in found if block.language == "diff"]
    in_copy(folder, "-m", "ruff", "check", *written)
    in_copy(folder, "-m", "ruff", "format", "--check", *written)
    return folder


@pytest.mark.full
def test_the_commands_of_a_page_print_what_it_says(extended: Path) -> None:
    """All in one process, which prints the text blocks of the pages in their order."""
    own = [command[1:] for name in EXAMPLES for command in commands_of(name) if command[0] == "airfl"]
    small = [[*words, *(SMALL if words[0] in TAKE_SETTINGS else ())] for words in own]
    printed = in_copy(extended, "-c", RUN_ALL, json.dumps(small))
    for block in (block for name in EXAMPLES for block in blocks_of(name) if block.language == "text"):
        for line in block.text.splitlines():
            assert line.strip() in printed, f"{block.place}: {line!r} is not, or not there, in\n{printed}"
            printed = printed.partition(line.strip())[2]


@pytest.mark.parametrize("conformance", [False, pytest.param(True, marks=pytest.mark.full)])
def test_their_tests_and_the_conformance_suite_pass(conformance: bool, extended: Path) -> None:
    """Each page's `pytest PATHS -k NAME`, as one; in short their own tests alone."""
    paths, names = set(), []
    for *given, option, name in (words[1:] for page in EXAMPLES for words in commands_of(page) if words[0] == "pytest"):
        assert option == "-k"
        assert "tests/conformance" in given
        paths |= set(given)
        names.append(name)
    assert len(names) == len(EXAMPLES)
    if not conformance:
        paths.remove("tests/conformance")
    report = in_copy(
        extended, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *sorted(paths), "-k", " or ".join(names)
    )
    for name in names:
        passed = [line for line in report.splitlines() if line.startswith("PASSED ") and name in line]
        assert any("tests/conformance/" in line for line in passed) == conformance
        assert any(f"test_{name}.py" in line for line in passed)


@pytest.fixture(scope="module")
def outside(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the files of all those pages have been written, and nothing else is."""
    folder = tmp_path_factory.mktemp("outside")
    where = installed.run(folder, "-c", "import airfl, channels; print(airfl.__file__, channels.__file__)").split()
    assert all(Path(file).is_relative_to(installed.folder) for file in where)
    for page, name in OUTSIDE.items():
        files = [block for block in blocks_of(page) if block.language in ("python", "toml") and not is_script(block)]
        written = [write(block, folder) for block in files]
        assert written == [f"{name}.py", f"{name}.toml", f"test_{name}.py"]
    style = ("--config", str(ROOT / "pyproject.toml"), "--no-cache", *(file.name for file in folder.glob("*.py")))
    for words in (["check"], ["format", "--check"]):
        done = command([sys.executable, "-m", "ruff", *words, *style], folder)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


@outside_pages
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.full)])
def test_the_commands_print_what_the_page_says(whole: bool, page: str, outside: Path, installed: Environment) -> None:
    """All in one process, then the script; in short without the run and the sweep."""
    own = [command[1:] for command in commands_of(page) if command[0] == "airfl"]
    assert {words[0] for words in own} == COMMANDS[page]
    done = [words for words in own if whole or words[0] in ("check", "budget", "privacy")]
    small = [[*words, *(SMALL if words[0] in TAKE_SETTINGS else ())] for words in done]
    printed = installed.run(outside, "-c", RUN_ALL, json.dumps(small))
    (script,) = (block for block in blocks_of(page) if block.language == "python" and is_script(block))
    printed += installed.run(outside, "-c", script.text)
    for block in (block for block in blocks_of(page) if block.language == "text"):
        for line in block.text.splitlines():
            assert line.strip() in printed, f"{block.place}: {line!r} is not, or not there, in\n{printed}"
            printed = printed.partition(line.strip())[2]


@outside_pages
def test_the_tests_of_the_page_pass(page: str, outside: Path, installed: Environment) -> None:
    (words,) = (words for words in commands_of(page) if words[0] == "pytest")
    report = installed.run(outside, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *words[1:])
    (file,) = (block for block in blocks_of(page) if "\ndef test_" in block.text)
    assert report.count("\nPASSED ") >= file.text.count("\ndef test_") > 3


def test_the_environment_that_is_asked_for_has_what_the_tests_import() -> None:
    """The suite, the tests of the pages, and those that the index names: of airfl's packages and the extra's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["test"]
    there = {re.split(r"[\[<>=;]", line)[0].strip().replace("-", "_") for line in [*project["dependencies"], *extra]}
    files = [*(ROOT / "tests" / "conformance").glob("*.py"), *(ROOT / "tests").glob("*.py")]
    files += [ROOT / "tests" / "unit" / "test_budget.py", ROOT / "tests" / "laws" / "test_fading.py"]
    sources = [file.read_text() for file in files]
    sources += [block.text for name in EXAMPLES for block in blocks_of(name) if block.language == "python"]
    wanted = set().union(*map(imported, sources)) - set(sys.stdlib_module_names) - {*COPIED, "selenium"}
    assert "hypothesis" in wanted
    assert wanted <= there
    index = (DOCS / "extending" / "index.md").read_text()
    assert 'pip install -c constraints.txt -e ".[test]"' in index
    for tool in ("pytest", "ruff", "mypy"):
        assert f"{tool} " in index or f"{tool}\n" in index
        assert tool in there


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
    """The packages that a source imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def copy_packages(folder: Path) -> None:
    """What a clone has, as far as it matters here; compiled modules too, which are as old as their sources."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name)
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "pyproject.toml", folder)


def blocks_of(name: str) -> list[Block]:
    """Of a page."""
    return blocks(DOCS / "extending" / f"{name}.md")


def commands_of(name: str) -> list[list[str]]:
    """The commands of a page, in words."""
    return [shlex.split(line) for block in blocks_of(name) if block.language == "sh" for line in commands(block.text)]


def write(block: Block, folder: Path) -> str:
    """Write the file that the page names last before the block, as `path.py` and a colon; its name."""
    above = "\n".join(block.page.read_text().splitlines()[: block.line - 1])
    name = str(re.findall(r"`([\w/-]+\.(?:py|toml))`:", above)[-1])
    assert not (folder / name).exists(), f"{block.place}: {name} is there already"
    (folder / name).write_text(block.text)
    return name


def enter(block: Block, folder: Path) -> str:
    """Change a file by a diff without line numbers, each of whose places must be there once; the file's name."""
    header, *hunks = re.split(r"^@@.*\n", block.text, flags=re.MULTILINE)
    name = re.search(r"^\+\+\+ b/(.*)$", header, flags=re.MULTILINE)
    assert name, f"{block.place}: no file is named"
    file = folder / name[1]
    text = file.read_text()
    for hunk in hunks:
        lines = [line or " " for line in hunk.splitlines()]
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] != sign) for sign in "+-")
        assert text.count(old) == 1, f"{block.place}: {name[1]} has this {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    file.write_text(text)
    return name[1]


def is_script(block: Block) -> bool:
    """Whether a block is entered into Python, and is no file."""
    return "\ndef " not in block.text and "\nprint(" in block.text


def in_copy(folder: Path, *words: str) -> str:
    """What Python prints there, with the packages that are there; it ends well."""
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
    return done.stdout
