"""The command `airfl doctor`, which reports on the installation and the machine."""

from __future__ import annotations

import dataclasses
import itertools
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from airfl.cli.app import AsJson, DataDir, show
from airfl.errors import MachineError

if TYPE_CHECKING:
    from airfl.cli.checkup import Checkup

WIDTH = 98
COLUMN = 16


def doctor(
    imports: Annotated[
        bool,
        typer.Option(
            "--imports", help="also import optional and slow packages, to check that they work (half a minute)"
        ),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Versions, devices, compiler and data; what is missing."""
    from airfl.cli.checkup import check_up

    checkup = check_up(data_dir, imports)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(checkup)))
    else:
        for line in report_lines(checkup):
            show(line)
    check_base(checkup)


def check_base(checkup: Checkup) -> None:
    """Raise MachineError if a required package is missing or does not work."""
    if checkup.broken:
        problems = "; ".join(f"{p.name} {p.problem or 'is missing'}" for p in checkup.broken)
        raise MachineError(f"required packages do not work: {problems}")


def report_lines(checkup: Checkup) -> list[str]:
    """Return the lines of the report."""
    return [
        *_row("airfl", f"{checkup.airfl}, Python {checkup.python}, {checkup.system}"),
        *_row("", checkup.executable),
        *_row("packages", _versions(checkup, base=True)),
        *_row("extras", _versions(checkup, base=False) or "none"),
        *_machine(checkup),
        *_row("data", "searched in"),
        *(line for folder in checkup.data_folders for line in _row("", folder)),
        *_row("", f"available: {_names(checkup, available=True) or 'none'}"),
        *_row("", f"not available: {_names(checkup, available=False) or 'none'}; airfl data get NAME"),
        *(
            line
            for folder in checkup.kept
            for line in _row(
                "folders", f"{folder.path}: {folder.holds}{'' if folder.writable else ', cannot be written'}"
            )
        ),
        *(line for name, value in checkup.environment.items() for line in _row("environment", f"{name}={value}")),
        "",
        *_missing(checkup),
    ]


def _machine(checkup: Checkup) -> list[str]:
    machine, compiler = checkup.machine, checkup.compiler
    memory = f", {machine.memory_bytes / 1e9:.1f} GB of memory" if machine.memory_bytes else ""
    cuda = ", ".join(machine.cuda) or machine.problem or "none"
    description = f"{compiler.version or 'unknown version'} ({compiler.path})" if compiler.path else "none"
    return [
        *_row("processor", f"{machine.cpu}, {machine.cores} usable cores{memory}"),
        *_row("cuda", cuda),
        *_row("compiler", description),
    ]


def _missing(checkup: Checkup) -> list[str]:
    """Return the lines on what is missing or does not work, what needs it, and how to fix it."""
    missing = [
        _row(p.name, f"{p.problem or 'not installed'}; needed for {p.serves}; {p.install}")
        for p in checkup.packages
        if not p.usable
    ]
    if checkup.compiler.path is None:
        missing.append(
            _row(
                "C++ compiler",
                "none of CXX, g++, clang++, cl; long runs of small models, and noise, are slower without one",
            )
        )
    missing += [_row(name, state) for name, state in checkup.data.items() if state and not _is_available(state)]
    missing += [
        _row(folder.path, f"cannot be written; holds {folder.holds}") for folder in checkup.kept if not folder.writable
    ]
    return ["missing or not working:", *itertools.chain(*missing)] if missing else ["nothing is missing"]


def _versions(checkup: Checkup, base: bool) -> str:
    return ", ".join(f"{p.name} {p.version}" for p in checkup.packages if p.base == base and p.version)


def _names(checkup: Checkup, available: bool) -> str:
    return ", ".join(name for name, state in checkup.data.items() if _is_available(state) == available)


def _is_available(state: str | None) -> bool:
    from airfl.cli.checkup.places import GENERATED

    return state is not None and (state == GENERATED or Path(state).is_dir())


def _row(heading: str, text: str) -> list[str]:
    """Return a heading and its text, wrapped and indented."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{heading} ".ljust(COLUMN),
        subsequent_indent=" " * COLUMN,
        break_on_hyphens=False,
        break_long_words=False,
    )
