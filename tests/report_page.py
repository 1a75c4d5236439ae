"""A small comparison and a small sweep for tests of the report, and a parsed form of the page."""

import json
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from airfl.analysis.results.result import Result
from airfl.analysis.results.sweep_folder import Entry, Listing, write_listing
from airfl.config import Row
from airfl.study.compare import compare
from tests.conftest import small_settings
from tests.small_data import run

SCRIPT = "<script>alert(1)</script> & <b>bold</b>"
CAUSE = "UserError: <img src=x onerror=alert(2)> is no number"
RATIOS = (0.1, 0.5, 1.0)


def make_comparison(out: Path) -> Path:
    """Make a comparison of three rows with two seeds and four rounds. One label is markup, and one link is ideal."""
    rows = {
        "FedAvg, ideal": ("scheme.name=fedavg",),
        SCRIPT: ("scheme.name=pfels", "scheme.ratio=0.3"),
        "WFL-PDP": ("scheme.name=wfl-pdp", "local.learning_rate=0.02"),
    }
    common = ("run.rounds=4", "run.evaluate_every=1")
    compare([Row(label, small_settings(*common, *overrides)) for label, overrides in rows.items()], 2, out)
    return out


def make_sweep(out: Path) -> Path:
    """Make a sweep of PFELS at three ratios with one seed; one point has failed, and one has not been run yet."""
    entries = []
    for ratio in RATIOS:
        run(small_settings("scheme.name=pfels", f"scheme.ratio={ratio}"), out / f"ratio-{ratio}")
        entries.append(Entry(f"ratio-{ratio}", "", {"scheme.ratio": ratio}, 0))
    entries += [Entry(name, "", {"scheme.ratio": 0.7}, seed) for seed, name in enumerate(("failed", "waiting"))]
    write_listing(Listing(out, tuple(entries), {"failed": CAUSE}))
    return out


def summarised(run: Result, **changes: Any) -> Result:
    return replace(run, digest=replace(run.digest, summary=replace(run.digest.summary, **changes)))


@dataclass(frozen=True)
class Cell:
    """A cell: its text, the value that it is sorted by, and its hover text."""

    text: str
    value: str | None
    title: str | None


@dataclass
class Page(HTMLParser):
    """A parsed page: tables by id as rows of cells, headings first; elements; scripts; text outside of scripts."""

    source: str
    tables: dict[str, list[list[Cell]]] = field(default_factory=dict)
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._inside: list[str] = []
        self.feed(self.source)

    def handle_starttag(self, name: str, pairs: list[tuple[str, str | None]]) -> None:
        attributes = dict(pairs)
        self.elements.append((name, attributes))
        if name in ("script", "style", "span") and (name != "span" or attributes.get("class") == "where"):
            self._inside.append(name)
        if name == "script":
            self.scripts.append((attributes, ""))
        if name == "table":
            self._rows = self.tables.setdefault(str(attributes["id"]), [])
        if name == "tr":
            self._rows.append([])
        if name in ("td", "th"):
            self._rows[-1].append(Cell("", attributes.get("data-value"), attributes.get("title")))
            self._inside.append("cell")

    def handle_endtag(self, name: str) -> None:
        ends = "cell" if name in ("td", "th") else name
        if self._inside and self._inside[-1] == ends:
            self._inside.pop()

    def handle_data(self, text: str) -> None:
        where = self._inside[-1] if self._inside else ""
        if where == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + text)
        elif where != "style":
            self.text += text
        if where == "cell":
            cell = self._rows[-1][-1]
            self._rows[-1][-1] = Cell(cell.text + text, cell.value, cell.title)

    def figure(self, name: str) -> dict[str, Any]:
        """Return the data of a plot."""
        texts = (text for attributes, text in self.scripts if attributes.get("data-plot") == name)
        found: dict[str, Any] = json.loads(next(texts))
        return found

    def column(self, table: str, heading: str) -> list[Cell]:
        """Return the cells below a heading of a table."""
        head, *rows = self.tables[table]
        place = [cell.text for cell in head].index(heading)
        return [row[place] for row in rows]
