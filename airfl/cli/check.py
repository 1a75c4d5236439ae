"""The command that checks parts of the user's own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from airfl.cli import completion
from airfl.cli.app import AsJson, print_list, say
from airfl.errors import UserError


def check(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="a Python file that defines parts; it is run, as code", show_default=False),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE ...]",
            help="parameters of the parts, settings of the short runs, such as scheme.ratio=0.3",
            autocompletion=completion.settings,
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Run a file with parts of your own and check each as airfl's are."""
    from airfl.check import check_file

    found = check_file(file, overrides or [])
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(one) for one in found]))
    else:
        print_list([_row(dataclasses.asdict(one)) for one in found], as_json=False)
    wrong = [f"{one.part}: {one.check}" for one in found if one.outcome == "wrong"]
    if wrong:
        raise UserError(f"{file}: {len(wrong)} of {len(found)} checks found something wrong ({', '.join(wrong)})")
    say(f"{file}: {len(found)} checks, nothing wrong")


def _row(one: dict[str, Any]) -> dict[str, str]:
    """A line of the table."""
    result = one["outcome"] if one["outcome"] != "wrong" else one["found"]
    if one["outcome"] == "not checked":
        result = f"not checked {one['found']}"
    return {"part": one["part"], "check": one["check"], "result": result, "what is checked": one["what"]}
