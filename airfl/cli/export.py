"""The command `airfl export`, which converts traces for other tools."""

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
        Path | None, typer.Argument(metavar="DIR", help="folder of a run, or of several runs", show_default=False)
    ] = None,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help=f"required: {', '.join(FORMATS)}", autocompletion=completion.one_of(lambda: FORMATS)
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="required: output folder; runs keep their subfolders of DIR")
    ] = None,
) -> None:
    """Convert traces for other tools; channels for replay."""
    if folder is None or to is None or out is None:
        missing = "DIR" if folder is None else "--to" if to is None else "--out"
        raise UserError(f"export: {missing} is missing; airfl export DIR --to {'|'.join(FORMATS)} --out FOLDER")
    check_format(to)

    from airfl.exports import export as write

    files = write(folder, to, out, say)
    listed = ", ".join(map(str, files)) if len(files) <= 8 else f"{len(files)} files in {out}"
    say(f"written: {listed}")
