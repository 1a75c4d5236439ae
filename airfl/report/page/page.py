"""Assembly and writing of the page."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.analysis.results.collect import read_some_results
from airfl.analysis.results.find import check_folder
from airfl.config.arguments import public
from airfl.errors import UserError
from airfl.report.page.sections import SECTIONS
from airfl.report.page.view import PageView
from airfl.storage.output_files import check_can_be_file, replacing
from airfl.storage.own_files import both_ends, check_no_link, is_file
from airfl.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

NAME = "report.html"
GENERATOR = '<meta name="generator" content="airfl report'
HEAD_BYTES = 4096  # read of a file to find the generator, which is near its beginning


@public
def report(folders: str | Path | Sequence[str | Path], out: str | Path | None = None) -> Path:
    """Write one HTML page on the runs in some folders: tables, plots, fronts, privacy. Available as `airfl.report`.

    Args:
        folders: A folder of runs, or several.
        out: Path of the page; by default report.html in the first folder. An earlier report is replaced.

    Returns:
        The path of the page.

    Raises:
        UserError: For folders without runs, and if something other than a report is in the place of the page.
    """
    return write_page(folders, out)


def write_page(
    folders: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write the report of the runs in these folders as one HTML file and return its path.

    An earlier report is replaced as a whole.

    Args:
        folders: A folder of runs, or several.
        out: Path of the page; by default report.html in the first folder.
        say: Called with a line for each run that cannot be read and is left out.

    Raises:
        UserError: For folders without runs, and, before anything is read, if something else is in the place of the
            page.
    """
    places = [Path(folder) for folder in ([folders] if isinstance(folders, str | Path) else folders)]
    target = Path(out) if out is not None else places[0] / NAME
    if out is None:
        check_folder(places[0])
    check_target(target)
    results = read_some_results(places)
    for line in results.unreadable.values():
        say(f"left out: {line}")
    page = html_page(PageView(results, tuple(places)))
    target.parent.mkdir(parents=True, exist_ok=True)
    check_target(target)
    with replacing(target) as temporary:
        # A path on disk may contain bytes that are not valid text.
        temporary.write_bytes(page.encode("utf-8", "replace"))
    return target


def check_target(target: Path) -> None:
    """Raise UserError unless a report can be written to the path, where nothing or an earlier report may be."""
    check_no_link(target)
    if os.path.isdir(target):  # unlike Path.is_dir, this raises no errors
        raise UserError(f"--out {target}: is a folder; give a file, for instance {target / NAME}")
    check_can_be_file(target)
    if not target.exists():
        return
    if not is_file(target) or GENERATOR.encode() not in both_ends(target)[:HEAD_BYTES]:
        raise UserError(f"{target}: already exists and is not a report written by airfl; choose another --out")


def html_page(view: PageView) -> str:
    """Return the page: one text with HTML, style, scripts and data, which loads nothing else."""
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
    """Return the jinja environment of the page's templates, which escapes everything except `Markup`."""
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
    """Return a content security policy under which nothing is fetched and only these scripts run."""
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
