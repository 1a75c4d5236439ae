"""Code blocks of a page, and comments before a block that control how a test runs it.

<!-- test: with run.rounds=3 -->     settings for its airfl commands instead of the tests' small ones
<!-- test: in tests/unit/test_x.py -->     the named test runs the block
<!-- test: as COMMAND -->     this command is run instead, a shorter form
<!-- test: refused -->     the block is refused; the text block after it is the error message
<!-- test: file NAME -->     the text of the block is also written to NAME
<!-- test: printed -->     for a text block: the output of the preceding block contains these lines
"""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

DOCS = ROOT / "docs"
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[^\s`]*)[^\n]*$")
MARK = re.compile(r"^\s*<!-- test: (?P<how>with|in|as|refused|file|printed)(?: (?P<what>.*?))? *-->$")
CODE = ("sh", "python", "toml", "matlab")
NO_CODE = ("text", "diff", "html")


@dataclass(frozen=True)
class Block:
    """language; text; line: of the page, from 1; how, what: of the comment before it, "" without one."""

    page: Path
    line: int
    language: str
    text: str
    how: str = ""
    what: str = ""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page of the documentation that is written, not made."""
    made = (DOCS / "reference", DOCS / "_site")
    return sorted(
        page for page in DOCS.rglob("*.md") if not any(folder in page.parents for folder in made) and is_kept(page)
    )


def is_kept(page: Path) -> bool:
    """Whether it is a page, and no table that a page includes."""
    return page.relative_to(DOCS).as_posix() not in (*("comparison.md", "figures/table.md", "figures/table-column.md"),)


def blocks(page: Path) -> list[Block]:
    """Its blocks in order; ValueError for a block that is left open."""
    found, mark, lines = [], ("", ""), page.read_text().splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        opened = FENCE.match(line)
        if opened:
            start, indent, fence = number, opened["indent"], opened["fence"]
            number += 1
            while number < len(lines) and lines[number].strip() != fence:
                number += 1
            if number == len(lines):
                raise ValueError(f"{page}:{start + 1}: the block is not closed")
            text = "".join(f"{inner.removeprefix(indent)}\n" for inner in lines[start + 1 : number])
            found.append(Block(page, start + 1, opened["language"], text, *mark))
            mark = ("", "")
        elif line.strip():
            marked = MARK.match(line)
            mark = (marked["how"], (marked["what"] or "").strip()) if marked else ("", "")
        number += 1
    return found


def commands(text: str) -> list[str]:
    """The commands of a shell block, comments left out, lines that go on joined."""
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    return [line for line in lines if line and not line.startswith("#")]
