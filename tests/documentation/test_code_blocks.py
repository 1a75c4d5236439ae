"""Every code block of the documentation runs, page by page; see blocks.py for what shortens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documentation.blocks import CODE, DOCS, NO_CODE, blocks, pages
from tests.documentation.session import Session

PAGES = [page for page in pages() if any(block.language in CODE for block in blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(DOCS).as_posix() for page in PAGES])
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


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_block_says_its_language(page: Path) -> None:
    for block in blocks(page):
        known = block.language in (*CODE, *NO_CODE) or block.language.startswith("{")
        assert known, f"{block.place}: {block.language!r} is none of {', '.join((*CODE, *NO_CODE))}"
        if block.language in NO_CODE:
            assert block.how in ("", "printed"), block.place


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_no_code_hides_in_an_indented_block(page: Path) -> None:
    before = ""
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        inside ^= line.lstrip().startswith("```")
        indented = line.startswith("    ") and not before.strip() and not inside
        assert not indented, f"{page}:{number}: fence it and say its language"
        before = line
