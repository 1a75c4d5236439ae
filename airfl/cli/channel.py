"""The commands `airfl channel`, which import recorded channels from other tools and show what is in them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from airfl.cli import completion
from airfl.cli.app import AsJson, print_list, print_table, say
from airfl.cli.help import Command, Commands
from airfl.errors import UserError
from airfl.runtime.numbers import counted

channel_app = typer.Typer(
    name="channel",
    cls=Commands,
    help="Recorded channels: import them from other tools, or show one.",
    epilog="Example: airfl channel kinds",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _kinds() -> list[str]:
    from channels.imported import KINDS

    return list(KINDS)


@channel_app.command("import", cls=Command, epilog="airfl channel import csv street.csv --normalise --out street.h5")
def import_(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="a kind listed by `airfl channel kinds`", autocompletion=completion.one_of(_kinds)
        ),
    ],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="file, folder or scene, according to KIND")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE ...]", help="options of KIND, listed by `airfl channel kinds KIND`"),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="HDF5 file to write, new", show_default=False)],
    devices: Annotated[str, typer.Option(metavar="CHOICE", help="a number, evenly spread; 0:100; or 3,5,9")] = "all",
    rounds: Annotated[str, typer.Option(metavar="CHOICE", help="a number, the first; 0:100; or 3,5,9")] = "all",
    antennas: Annotated[str, typer.Option(metavar="CHOICE", help="a number, the first; 0:8; or 3,5,9")] = "all",
    reachable: Annotated[
        bool, typer.Option("--reachable", help="leave out devices without a path in some round")
    ] = False,
    reference_db: Annotated[
        float, typer.Option(metavar="DB", help="power gain that becomes |h|^2 = 1, instead of 0 dB")
    ] = 0.0,
    normalise: Annotated[bool, typer.Option("--normalise", help="make the mean |h|^2 of all devices 1")] = False,
) -> None:
    """Import a channel into a file that a run replays."""
    from airfl.storage.output_files import check_can_be_file, making_new
    from airfl.version import __version__
    from channels.imported import KINDS, Choice, RecordingError, scaled, write_channel

    if kind not in KINDS:
        raise UserError(f"KIND must be one of {', '.join(KINDS)}, got {kind!r}")
    check_can_be_file(out)
    if os.path.lexists(out):
        raise UserError(f"{out}: already exists; choose another --out, or delete it")
    reader = KINDS[kind]
    choice = Choice(devices=devices, rounds=rounds, antennas=antennas, reachable=reachable)
    try:
        values = reader.parsed(options or [])
        if missing := [name for name in reader.required() if name not in values]:
            raise RecordingError(f"{kind} needs {missing[0]}=..., the {reader.options[missing[0]]}")
    except RecordingError as error:
        raise UserError(str(error)) from None
    attributes = {"kind": kind, "source": Path(source).name, "airfl_version": __version__}
    try:
        imported = scaled(reader(source, choice, **values), reference_db, normalise=normalise)
        out.parent.mkdir(parents=True, exist_ok=True)
        with making_new(out) as temporary:
            write_channel(imported, temporary, attributes)
    except RecordingError as error:
        raise UserError(f"{source}: {error}") from None
    for note in imported.notes:
        say(note)
    say(f"written: {out}: {', '.join(counted(n, what.removesuffix('s')) for what, n in imported.sizes().items())}")


@channel_app.command(cls=Command, epilog="airfl channel show channel.npy --out figures")
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="recorded channel: HDF5, .mat, .npy or .npz")],
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder for figures, as PNG and PDF", show_default=False)
    ] = None,
    variable: Annotated[
        str | None, typer.Option(metavar="NAME", help="array of gains, where the file holds several")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Statistics of a recorded channel, and figures."""
    from airfl.report.channel import FIGURES, draw_channel, statistics_table
    from airfl.report.figures import check_new_figures
    from channels.recorded.statistics import RecordingError, read_statistics

    if out is not None:
        check_new_figures(out, [f"{name}.{suffix}" for name in FIGURES for suffix in ("png", "pdf")], "--out")
    try:
        found = read_statistics(file, variable)
    except RecordingError as error:
        raise UserError(f"{file}: {error}") from None
    files = draw_channel(found, out, lambda line: say(f"left out: {line}")) if out is not None else []
    if as_json:
        typer.echo(json.dumps(found.figures()))
    else:
        print_table(statistics_table(found))
    if files:
        say("written: " + ", ".join(map(str, files)))


@channel_app.command(cls=Command, epilog="airfl channel kinds deepmimo")
def kinds(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", help="list the options of this kind", autocompletion=completion.one_of(_kinds)
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Kinds of sources that can be imported, and their options."""
    from channels.imported import KINDS

    if kind is not None and kind not in KINDS:
        raise UserError(f"KIND must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind is None:
        print_list([{"kind": one.name, "source": one.source} for one in KINDS.values()], as_json)
        return
    one = KINDS[kind]
    defaults = one.defaults()
    listing = [
        {"option": name, "default": "required" if name in one.required() else defaults[name], "meaning": meaning}
        for name, meaning in one.options.items()
    ]
    if not as_json:
        listing = [{**row, "default": _as_given(row["default"])} for row in listing]
    print_list(listing, as_json)


def _as_given(default: Any) -> str:
    """Return the default of an option as KEY=VALUE would give it."""
    if default is None:
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default).lower()
