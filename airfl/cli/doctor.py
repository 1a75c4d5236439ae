"""The command that says what airfl finds on this machine."""

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
    from airfl.doctor import Checkup

WIDTH = 98
COLUMN = 16


def doctor(
    imports: Annotated[
        bool,
        typer.Option("--imports", help="import what is optional or slow too, to see that it works (half a minute)"),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Versions, devices, compiler, data; what is missing for what."""
    from airfl.doctor import check_up

    found = check_up(data_dir, imports)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found)))
    else:
        for line in lines(found):
            show(line)
    refuse(found)


def refuse(found: Checkup) -> None:
    """MachineError where a package of the base is missing or does not work."""
    if found.broken:
        wrong = "; ".join(f"{p.name} {p.problem or 'is missing'}" for p in found.broken)
        raise MachineError(f"the base does not work: {wrong}")


def lines(found: Checkup) -> list[str]:
    """What was found, a heading a line."""
    return [
        *_row("airfl", f"{found.airfl}, Python {found.python}, {found.system}"),
        *_row("", found.executable),
        *_row("packages", _versions(found, base=True)),
        *_row("extras", _versions(found, base=False) or "none"),
        *_machine(found),
        *_row("data", "looked for in"),
        *(line for folder in found.data_folders for line in _row("", folder)),
        *_row("", f"there: {_names(found, there=True) or 'none'}"),
        *_row("", f"not there: {_names(found, there=False) or 'none'}; airfl data get NAME"),
        *(
            line
            for kept in found.kept
            for line in _row("kept", f"{kept.path}: {kept.holds}{'' if kept.writable else ', cannot be written'}")
        ),
        *(line for name, value in found.environment.items() for line in _row("environment", f"{name}={value}")),
        "",
        *_missing(found),
    ]


def _machine(found: Checkup) -> list[str]:
    machine, compiler = found.machine, found.compiler
    memory = f", {machine.memory_bytes / 1e9:.1f} GB of memory" if machine.memory_bytes else ""
    cuda = ", ".join(machine.cuda) or machine.problem or "none"
    named = f"{compiler.version or 'says nothing of itself'} ({compiler.path})" if compiler.path else "none"
    return [
        *_row("processor", f"{machine.cpu}, {machine.cores} cores may be used{memory}"),
        *_row("cuda", cuda),
        *_row("compiler", named),
    ]


def _missing(found: Checkup) -> list[str]:
    """What does not work, what needs it, how to mend it."""
    missing = [
        _row(p.name, f"{p.problem or 'not installed'}; serves {p.serves}; {p.install}")
        for p in found.packages
        if not p.usable
    ]
    if found.compiler.path is None:
        missing.append(
            _row("C++ compiler", "none of CXX, g++, clang++, cl; long runs of small models are slower without")
        )
    missing += [_row(name, what) for name, what in found.data.items() if what and not Path(what).is_dir()]
    missing += [_row(kept.path, f"cannot be written; holds {kept.holds}") for kept in found.kept if not kept.writable]
    return ["missing, or not working:", *itertools.chain(*missing)] if missing else ["nothing is missing"]


def _versions(found: Checkup, base: bool) -> str:
    return ", ".join(f"{p.name} {p.version}" for p in found.packages if p.base == base and p.version)


def _names(found: Checkup, there: bool) -> str:
    return ", ".join(name for name, place in found.data.items() if (place is not None) == there)


def _row(heading: str, text: str) -> list[str]:
    """A heading and what belongs to it, indented, as many lines as it takes."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=heading.ljust(COLUMN),
        subsequent_indent=" " * COLUMN,
        break_on_hyphens=False,
        break_long_words=False,
    )
