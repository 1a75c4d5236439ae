"""The documentation site builds without warnings and opens offline, and every figure has the command that makes it."""

import importlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import airfl
from airfl.cli import COMMANDS
from airfl.config import Settings
from airfl.config.parts import section_of
from airfl.storage.trace import schema
from tests.conftest import ROOT
from tests.documentation.blocks import DOCS, pages

FIGURE = re.compile(r"!\[[^\]]+\]\(([^)\s]+)\)")
FENCE_OF_COMMANDS = re.compile(r"(?:<!-- test: [^\n]*-->\n)?```sh\n")
# What a browser fetches by itself when it opens a page; links that are clicked are something else.
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
NOT_FETCHED = ("next", "prev", "index", "search", "canonical")


class Page(HTMLParser):
    """What a page fetches, where its links lead, which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        address = given.get(FETCHED.get(tag, ""))
        if address and given.get("rel") not in NOT_FETCHED:
            self.fetched.append(address)
        if tag == "a" and (link := given.get("href")):
            self.links.append(link)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` makes it."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(out / "kept")]
    command, environment = [*command, str(DOCS), str(out / "html")], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


@pytest.mark.full
def test_every_page_is_on_the_site_and_fetches_nothing_from_elsewhere(site: Path) -> None:
    for page in pages():
        assert (site / page.relative_to(DOCS).with_suffix(".html")).exists(), page
    for file in site.rglob("*.html"):
        for address in Page(file.read_text()).fetched:
            assert not re.match(r"(https?:)?//", address), f"{file}: {address}"
            assert address.startswith("data:") or (file.parent / address.partition("?")[0]).exists(), (
                f"{file}: {address}"
            )
    for file in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", file.read_text()), file


@pytest.mark.full
def test_every_link_leads_to_a_page_and_an_anchor_of_it(site: Path) -> None:
    read = {file: Page(file.read_text()) for file in site.rglob("*.html")}
    for file, page in read.items():
        for link in page.links:
            address, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", address):
                continue
            target = (file.parent / address).resolve() if address else file
            assert target.exists(), f"{file}: {link}"
            if anchor and target in read:
                assert anchor in read[target].anchors, f"{file}: {link}"


@pytest.mark.full
def test_code_that_scrolls_is_reached_by_keyboard_and_headings_have_a_level(site: Path) -> None:
    for file in (site / "index.html", site / "exports.html"):
        text = file.read_text()
        assert text.count('<pre tabindex="0">') == text.count("<pre") > 0
        assert text.count('role="heading" aria-level="2"') == text.count('role="heading"') > 0


@pytest.mark.full
def test_the_side_bars_of_a_page_have_names(site: Path) -> None:
    """Screen readers list both as complementary."""
    for page in (site / "index.html", site / "channels" / "index.html"):
        bars = re.findall(r"<aside[^>]*-drawer[^>]*>", page.read_text(encoding="utf-8"))
        names = re.findall(r'aria-label="([^"]+)"', " ".join(bars))
        assert len(bars) == len(set(names)) == 2


def test_the_side_bars_of_the_theme_are_those_that_get_names() -> None:
    """The template replaces their tags by text, which has to be there."""
    furo = pytest.importorskip("furo")
    theme = (Path(furo.__file__).parent / "theme" / "furo" / "page.html").read_text(encoding="utf-8")
    template = (DOCS / "_site" / "templates" / "page.html").read_text(encoding="utf-8")
    wanted = re.findall(r"replace\('([^']+)'", template)
    assert len(wanted) == theme.count('-drawer">') + theme.count("-drawer{%") == 2
    assert all(theme.count(tag) == 1 for tag in wanted)


@pytest.mark.full
def test_formulas_are_drawn_without_a_script(site: Path) -> None:
    text = (site / "glossary.html").read_text()
    assert text.count("<math") > 20
    # ||x||^2: bars that grow with what they hold, and the square at all of it.
    assert re.search(r'<msup><mrow><mo [^>]*form="prefix">&#x02016;</mo>.*?form="postfix">&#x02016;</mo></mrow>', text)
    assert not re.search(r"<script[^>]*(mathjax|katex)", text, flags=re.IGNORECASE)


@pytest.mark.full
def test_the_reference_has_every_setting_command_and_variable(site: Path) -> None:
    settings = (site / "reference" / "settings.html").read_text()
    described = Settings.model_json_schema()
    for name in Settings.model_fields:
        for key in section_of(described, name)["properties"]:
            assert f"{name}.{key}</span>" in settings, f"{name}.{key}"
    commands = (site / "reference" / "commands.html").read_text()
    for command in (command for group in COMMANDS.values() for command, _ in group):
        assert f">airfl {command.__name__}<" in commands, command
    trace = (site / "reference" / "trace.html").read_text()
    for variable in schema.PER_ROUND:
        assert f">{variable.name}</span>" in trace, variable
    python = (site / "reference" / "python.html").read_text()
    assert "airfl.load_settings" in python
    assert " ".join((airfl.run.__doc__ or "").split()[:3]) in python


def test_the_pages_of_reference_in_git_are_those_that_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` writes them."""
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    reference = importlib.import_module("reference")
    for name, make in reference.PAGES.items():
        assert (DOCS / "reference" / f"{name}.md").read_text() == make(), f"{name}.md is of yesterday: run make docs"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_under_every_figure_stands_the_command_that_makes_it(page: Path) -> None:
    text = page.read_text()
    for shown in FIGURE.finditer(text):
        assert (page.parent / shown[1]).exists(), shown[1]
        below = text[shown.end() :].lstrip("\n")
        assert FENCE_OF_COMMANDS.match(below), f"{page}: {shown[1]}"
        commands = below.split("```sh\n", 1)[1].split("```")[0]
        assert Path(shown[1]).stem in commands or "make figure" in commands, shown[1]
