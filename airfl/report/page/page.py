"""The page put together, and written."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.analysis.results.collect import read_some_results
from airfl.config.arguments import public
from airfl.errors import UserError
from airfl.report.page.sections import SECTIONS
from airfl.report.page.view import View
from airfl.storage.output_files import check_can_be_file, replacing
from airfl.storage.own_files import both_ends, check_no_link, is_file
from airfl.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

NAME = "report.html"
GENERATOR = '<meta name="generator" content="airfl report'
HEAD_BYTES = 4096  # of a file: the generator stands near its beginning


@public
def report(folders: str | Path | Sequence[str | Path], out: str | Path | None = None) -> Path:
    """One HTML page of the runs in some folders: tables, plots, fronts, privacy; `airfl.report` is this function.

    Args:
        folders: A folder of runs, or several.
        out: The page; by default report.html in the first folder. An earlier report is replaced.

    Returns:
        Where it is.

    Raises UserError for folders without runs, and where something else is in the way.
    """
    return write_page(folders, out)


def write_page(
    folders: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """The report of the runs in these folders, as one HTML file; out: by default report.html in the first of them.

    say(line) is told of each run that cannot be read and is left out. An
    earlier report is replaced, whole. UserError for folders without runs and where something else is in the way, before
    anything is read.
    """
    places = [Path(folder) for folder in ([folders] if isinstance(folders, str | Path) else folders)]
    target = Path(out) if out is not None else places[0] / NAME
    if out is None and not places[0].is_dir():
        raise UserError(f"{places[0]}: no such folder")
    check_target(target)
    results = read_some_results(places)
    for line in results.unreadable.values():
        say(f"left out: {line}")
    page = html_page(View(results, tuple(places)))
    target.parent.mkdir(parents=True, exist_ok=True)
    check_target(target)
    with replacing(target) as temporary:
        # A path on disk may hold bytes that are no text.
        temporary.write_bytes(page.encode("utf-8", "replace"))
    return target


def check_target(target: Path) -> None:
    """UserError unless a report can be written there: nothing is there, or a report."""
    check_no_link(target)
    if os.path.isdir(target):  # which, unlike Path's, raises nothing
        raise UserError(f"--out {target}: is a folder, a file is wanted: {target / NAME}")
    check_can_be_file(target)
    if not target.exists():
        return
    if not is_file(target) or GENERATOR.encode() not in both_ends(target)[:HEAD_BYTES]:
        raise UserError(f"{target}: is there already and is no report of airfl; choose another --out")


def html_page(view: View) -> str:
    """The page: HTML, style, scripts and data in one text, which fetches nothing."""
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs(), _beside("page.js")]
    built = [(section, section.build(view)) for section in SECTIONS]
    return (
        environment()
        .get_template("page.html")
        .render(
            version=__version__,
            policy=_policy(scripts),
            title=", ".join(_last_part(folder) for folder in view.folders),
            style=Markup(_beside("page.css")),
            sections=[(section, content) for section, content in built if content],
            scripts=[Markup(script) for script in scripts],
        )
    )


def environment() -> Environment:
    """The environment of the page's templates, which escapes whatever is not `Markup`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("airfl.report.page"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made


def _policy(scripts: Sequence[str]) -> str:
    """Nothing is fetched, and no script runs but these."""
    sums = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in sums)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _beside(name: str) -> str:
    return files("airfl.report.page").joinpath(name).read_text(encoding="utf-8")


def _last_part(folder: Path) -> str:
    return folder.resolve().name or str(folder)
