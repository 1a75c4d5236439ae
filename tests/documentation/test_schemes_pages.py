"""Every scheme has one section in the documentation with its paper, file, equations and a command that runs it."""

import re
import shlex
from pathlib import Path

import pytest

from airfl.config import load_settings
from airfl.schemes.names import SCHEMES
from airfl.schemes.recipe import Problem
from tests.conftest import ROOT, fitting
from tests.documentation.blocks import DOCS, Block, blocks, commands

FOLDER = DOCS / "schemes"
FORMULA = re.compile(r"^\$\$\n(?P<formula>[^$]+)\n\$\$$", flags=re.MULTILINE)
EVERY = pytest.mark.parametrize("name", list(SCHEMES))


def sections(page: Path) -> dict[str, str]:
    """Heading -> text under it, for the second level; a line in a code block is no heading."""
    found, heading, inside = {"": ""}, "", False
    for line in page.read_text().splitlines(keepends=True):
        inside ^= line.startswith("```")
        if line.startswith("## ") and not inside:
            heading = line[3:].strip()
            assert heading not in found, f"{page.name}: {heading} twice"
            found[heading] = ""
        else:
            found[heading] += line
    return found


def places(name: str) -> list[tuple[Path, str]]:
    """Pages that have a section of that name, and the section."""
    found = [(page, sections(page)) for page in sorted(FOLDER.glob("*.md"))]
    return [(page, parts[name]) for page, parts in found if name in parts]


def shell_blocks(page: Path, section: str) -> list[Block]:
    """Those of the page that stand in the section."""
    return [block for block in blocks(page) if block.language == "sh" and f"```sh\n{block.text}```" in section]


@EVERY
def test_a_scheme_has_one_section_with_its_file_and_an_equation(name: str) -> None:
    ((page, section),) = places(name)
    file = f"{SCHEMES[name].__module__.replace('.', '/')}.py"
    assert f"[{file}](../../{file})" in section, page.name
    assert (ROOT / file).is_file()
    assert FORMULA.search(section), f"{page.name}: no formula on lines of its own under {name}"


@EVERY
def test_a_command_of_its_section_runs_that_very_scheme(name: str) -> None:
    ((page, section),) = places(name)
    found = []
    for block in shell_blocks(page, section):
        assert block.how == "", f"{block.place}: nothing runs in the place of a scheme's own command"
        for command in commands(block.text):
            words = shlex.split(command)
            assert words[:3] == ["airfl", "run", "demo"]
            assert words[-2] == "--out"
            settings = load_settings(words[2], words[3:-2])
            found.append(settings.scheme.name)
    assert found
    assert set(found) == {name}


@EVERY
def test_the_table_has_its_title_paper_links_page_and_whose_data_a_release_is_about(name: str) -> None:
    ((page, _),) = places(name)
    entry = SCHEMES[name]
    rows = [line for line in (FOLDER / "index.md").read_text().splitlines() if line.startswith(f"| `{name}` |")]
    (cells,) = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    _, title, paper, links, protects, where = cells
    assert title == entry.title
    assert paper.startswith(entry.paper.split(",")[0])
    assert [year for year in re.findall(r"\((?:.*, )?(\d{4})\)", entry.paper) if year not in paper] == []
    assert links == ", ".join(entry.links)
    settings = load_settings("demo", fitting(name, ["scheme.noise_multiplier=1.0"]))
    recipe = settings.scheme.recipe(Problem(settings, 25_450, settings.scheme.carrier, samples=9))
    level = {"client": "a device's data", "record": "a record"}[recipe.release.level]
    assert protects == (level if recipe.claim else "nothing")
    assert where == f"[{page.name}]({page.name}#{name})"
