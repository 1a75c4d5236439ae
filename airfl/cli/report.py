"""The command that writes the report."""

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
    """One HTML page: tables, plots, fronts, privacy."""
    from airfl.report.page import write_page

    say(f"written: {write_page(folders, out, say=say)}")
