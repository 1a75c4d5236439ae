"""The command that gives traces to other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airfl.cli import completion
from airfl.cli.app import say
from airfl.errors import UserError
from airfl.exports import FORMATS, check_format


def export(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="run folder, or any folder of runs", show_default=False)
    ] = None,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help=f"needed: {', '.join(FORMATS)}", autocompletion=completion.one_of(lambda: FORMATS)
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="needed: folder for the files, each run in the one it has in DIR")
    ] = None,
) -> None:
    """Traces for other tools; the channel of a run, to be replayed."""
    if folder is None or to is None or out is None:
        missing = "DIR" if folder is None else "--to" if to is None else "--out"
        raise UserError(f"export: {missing} is missing; airfl export DIR --to {'|'.join(FORMATS)} --out FOLDER")
    check_format(to)

    from airfl.exports import export as write

    files = write(folder, to, out, say)
    shown = ", ".join(map(str, files)) if len(files) <= 8 else f"{len(files)} files in {out}"
    say(f"written: {shown}")
