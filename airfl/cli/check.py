"""The command `airfl check`, which checks user-defined parts."""

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
        typer.Argument(metavar="FILE", help="Python file that defines parts; its code is run", show_default=False),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE ...]",
            help="parameters of the parts and settings of the short runs, such as scheme.ratio=0.3",
            autocompletion=completion.settings,
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Check your own parts with the tests of the built-in ones."""
    from airfl.study.check import check_file

    results = check_file(file, overrides or [])
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(result) for result in results]))
    else:
        print_list([_row(dataclasses.asdict(result)) for result in results], as_json=False)
    failed = [f"{result.part}: {result.check}" for result in results if result.outcome == "wrong"]
    if failed:
        raise UserError(f"{file}: {len(failed)} of {len(results)} checks failed ({', '.join(failed)})")
    say(f"{file}: all {len(results)} checks passed")


def _row(result: dict[str, Any]) -> dict[str, str]:
    """Return a row of the table."""
    text = result["outcome"] if result["outcome"] != "wrong" else result["found"]
    if result["outcome"] == "not checked":
        text = f"not checked {result['found']}"
    return {"part": result["part"], "check": result["check"], "result": text, "what is checked": result["what"]}
