"""Deliberate breaks: single bugs that the tests have to detect. `make breaks` applies them one at a time to a copy.

Each kind of break has a file KIND.toml in this folder. An entry describes the bug, gives a text that occurs exactly
once in a source file, its replacement, and the tests that are expected to detect it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Break:
    """A bug. tests: paths or node ids; passes: why no test can find it, empty where one should."""

    kind: str
    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]
    passes: str = ""

    def put_into(self, source: str) -> str:
        """The file with the bug in it; ValueError unless the text is there exactly once."""
        if source.count(self.text) != 1:
            raise ValueError(f"{self.kind}: {self.name}: {self.file} has the text {source.count(self.text)} times")
        return source.replace(self.text, self.instead)


def kinds() -> list[str]:
    """The files of this folder."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_breaks(kind: str) -> list[Break]:
    """Of one kind, in the order of its file."""
    entries = tomllib.loads((FOLDER / f"{kind}.toml").read_text(encoding="utf-8"))["break"]
    return [Break(kind=kind, **{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
