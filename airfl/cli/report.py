"""The command `airfl report`, which writes the HTML report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airfl.cli.app import Folders, say


def report(
    folders: Folders,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="default report.html in the first DIR", show_default=False)
    ] = None,
) -> None:
    """Write an HTML page: tables, plots, Pareto fronts, privacy."""
    from airfl.report.page import write_page

    say(f"written: {write_page(folders, out, say=say)}")
