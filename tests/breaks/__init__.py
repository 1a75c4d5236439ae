"""Deliberate breaks: single bugs that the tests have to detect. `make breaks` applies them one at a time to a copy.

Each kind of break has a file KIND.toml in this folder. An entry describes the bug, gives a text that occurs exactly
once in a source file, its replacement, and the tests that are expected to detect it.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Break:
    """A deliberate bug.

    `tests` are paths or node ids. `passes` says why no test can detect the bug; it is empty if one should.
    """

    kind: str
    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]
    passes: str = ""

    def put_into(self, source: str) -> str:
        """Return the source with the bug in it; raise ValueError unless it contains the text exactly once."""
        if source.count(self.text) != 1:
            raise ValueError(f"{self.kind}: {self.name}: {self.file} has the text {source.count(self.text)} times")
        return source.replace(self.text, self.instead)


def kinds() -> list[str]:
    """Return the kinds of breaks, one per file of this folder."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_breaks(kind: str) -> list[Break]:
    """Return the breaks of one kind, in the order of its file."""
    entries = tomllib.loads((FOLDER / f"{kind}.toml").read_text(encoding="utf-8"))["break"]
    return [Break(kind=kind, **{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
