"""Every code block of the documentation runs, page by page; blocks.py documents how blocks are shortened.

In `make test`, the slow pages in FULL are only checked statically: their Python is compiled, and settings and options
of their commands are validated.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from airfl.cli import app
from airfl.config import load_rows, load_settings, plugins
from airfl.learning.tasks import datasets
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from tests.conftest import ROOT
from tests.documentation.blocks import CODE, DOCS, NO_CODE, Block, blocks, commands, pages
from tests.documentation.session import ELSEWHERE, TAKE_SETTINGS, Session, check_toml, shorter
from tests.small_data import SAMPLE, estimate_shortly, few_samples

FULL = (
    *("figures.md", "experiments.md", "privacy.md", "papers.md", "speed.md", "exports.md", "reproduce.md"),
    *("getting-started.md", "channels/index.md", "channels/antennas.md", "schemes/index.md", "schemes/fed-spa.md"),
    "schemes/soteriafl.md",
)
PAGES = {page.relative_to(DOCS).as_posix(): page for page in pages() if any(b.language in CODE for b in blocks(page))}


@pytest.fixture(autouse=True)
def _no_plugins(monkeypatch: pytest.MonkeyPatch, no_plugins_left: None) -> None:
    monkeypatch.setattr(plugins, "_allowed", False)


@pytest.fixture
def _few_samples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages that run every day train on a part of the demo's samples, and estimate constants from few of them."""

    def load_dataset(given: str | Dataset, folders: Sequence[Path] | None = None) -> RawData:
        name = given if isinstance(given, str) else given.name
        return few_samples() if name == SAMPLE else datasets.load_dataset(given, folders)

    if request.node.get_closest_marker("full") is None:
        estimate_shortly(monkeypatch)
        monkeypatch.setattr("airfl.learning.chosen_task.load_dataset", load_dataset)


@pytest.mark.usefixtures("_few_samples")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=name, marks=[pytest.mark.full] if name in FULL else []) for name, page in PAGES.items()],
)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AIRFL_DATA", raising=False)
    for block in blocks(page):
        if block.language in CODE:
            try:
                session.run(block, monkeypatch)
            except BaseException as error:
                error.add_note(f"in the block at {block.place}:\n{block.text}")
                raise
        elif block.how == "printed":
            for line in block.text.splitlines():
                assert line.strip() in session.printed, f"{block.place}: {line!r} is not in\n{session.printed}"


@pytest.mark.parametrize("name", FULL)
def test_the_blocks_of_a_page_are_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for block in blocks(PAGES[name]):
        if block.language == "python":
            compile(block.text, block.place, "exec")
        elif block.language == "toml":
            check_toml(block.text)
        elif block.language == "sh":
            for words in map(shlex.split, airfl_commands(block)):
                accept(words, block.place)


def airfl_commands(block: Block) -> list[str]:
    """Of the form that is run, those of airfl."""
    written = [] if block.how in ("in", "refused") else commands(f"{block.what}\n" if block.how == "as" else block.text)
    return [line.partition("  #")[0] for line in written if line.startswith("airfl ") and not ELSEWHERE.search(line)]


def accept(words: Sequence[str], place: str) -> None:
    """What the command line makes of the words, and the settings that it is given."""
    _, name, *rest = words
    group = typer.main.get_command(app)
    with group.make_context("airfl", [name, *rest], resilient_parsing=True) as above:
        found = group.get_command(above, name)  # type: ignore[attr-defined]
        assert found is not None, f"{place}: there is no airfl {name}"
        with found.make_context(name, list(map(shorter, rest)), parent=above) as context:
            given = context.params
    made = str(given.get("config")).startswith("runs/") or given.get("config") == Path("mine.toml")  # by the page
    if name in TAKE_SETTINGS and not made:
        firsts = [text if "=[" in text else re.split("[,:]", text)[0] for text in given["overrides"] or []]
        read = load_rows if name == "compare" else load_settings
        assert read(given["config"], firsts), place


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_block_is_fenced_and_says_its_language(page: Path) -> None:
    for block in blocks(page):
        known = block.language in (*CODE, *NO_CODE) or block.language.startswith("{")
        assert known, f"{block.place}: {block.language!r} is none of {', '.join((*CODE, *NO_CODE))}"
        if block.language in NO_CODE:
            assert block.how in ("", "printed"), block.place
    before, inside = "", False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        inside ^= line.lstrip().startswith("```")
        indented = line.startswith("    ") and not before.strip() and not inside
        assert not indented, f"{page}:{number}: fence it and say its language"
        before = line
