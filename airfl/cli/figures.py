"""The command `airfl figures`, which draws the figures and tables of the papers from finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airfl.cli import completion
from airfl.cli.app import Folders, say


def figures(
    folders: Folders,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="output folder for NAME.pdf and NAME.png")],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="figures, such as accuracy-ratio or accuracy-against-KEY; default all for which the runs have data",
            autocompletion=completion.some_of(completion.figures),
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,...", help="only runs with these settings", autocompletion=completion.axes),
    ] = None,
) -> None:
    """Draw the figures and tables of the papers."""
    from airfl.report.paper.figures import draw_figures, find_figure
    from airfl.report.paper.selection import read_conditions, select
    from airfl.storage.output_files import check_can_be_folder, no_empty_folder

    names = None if only is None else [name.strip() for name in only.split(",") if name.strip()]
    for name in names or []:
        find_figure(name)
    conditions = read_conditions(where or [])
    check_can_be_folder(out)

    from airfl.analysis.results import read_some_results

    read = read_some_results(folders)
    for line in read.unreadable.values():
        say(f"left out: {line}")
    selected = select(read, conditions)
    with no_empty_folder(out):
        files = draw_figures(selected, out, names, lambda line: say(f"left out: {line}"))
    say("written: " + ", ".join(str(file) for file in files))
