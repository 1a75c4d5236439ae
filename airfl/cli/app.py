"""The application, the options its commands share, and how they print."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airfl.cli import completion
from airfl.cli.help import Commands
from airfl.device import KINDS
from airfl.shown import sayable, sayable_table, tell
from airfl.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from airfl.config import Settings

app = typer.Typer(
    name="airfl",
    cls=Commands,
    help="Federated learning whose uplink is a radio channel.\n\n\b\n"
    "To begin:                            airfl run demo --out runs/first\n"
    "Options and an example of a command: airfl COMMAND --help",
    epilog="Exit codes: 0 done, 1 the machine or a bug, 2 what was given, 130 interrupted\n"
    "Environment: AIRFL_DATA, folder of data sets; AIRFL_CACHE, of decoded ones; AIRFL_TRACEBACK=1, where it failed",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    rich_markup_mode=None,
)

WIDTH_OF_PLAIN_OUTPUT = 150
WIDEST = 1000

_CONFIG: dict[str, Any] = {
    "help": "settings: a TOML file, or a name of `airfl configs`",
    "autocompletion": completion.configurations,
    "show_default": False,
}
Config = Annotated[Path, typer.Argument(metavar="CONFIG", **_CONFIG)]
NeededConfig = Annotated[Path | None, typer.Argument(metavar="CONFIG", **_CONFIG)]
MaybeConfig = Annotated[Path | None, typer.Argument(metavar="[CONFIG]", **_CONFIG)]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE ...]",
        help="settings that replace the file's, such as run.rounds=50",
        autocompletion=completion.settings,
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="output folder, new or empty", show_default=False)]
Device = Annotated[
    str,
    typer.Option(metavar="|".join(KINDS), help="what is computed on", autocompletion=completion.one_of(lambda: KINDS)),
]
DataDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="data sets, looked for here before AIRFL_DATA and ./data", show_default=False),
]
Folders = Annotated[list[Path], typer.Argument(metavar="DIR ...", help="folders of sweeps, comparisons or runs")]
Schemes = Annotated[
    str,
    typer.Option(
        metavar="NAME,NAME",
        help="these schemes instead of the file's [[compare]] rows",
        autocompletion=completion.some_of(completion.schemes),
    ),
]


def _allow(wanted: bool) -> None:
    if wanted:
        from airfl.plugins import allow_plugins

        allow_plugins()


Plugins = Annotated[
    bool,
    typer.Option(
        "--plugins", callback=_allow, is_eager=True, help="run the plugin files, which are code, that CONFIG names"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON value on standard output")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"airfl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


def say(message: str | None) -> None:
    """One line on standard error."""
    if message:
        tell(" ".join(message.split()))


def show(text: str) -> None:
    """Lines for people on standard output."""
    typer.echo(sayable(text, sys.stdout.encoding))


def say_without_effect(overrides: Sequence[str] | None, rows: Sequence[Settings]) -> None:
    """A line for each setting, overridden or from a file, that has no effect, and for each mean gain that bounds move
    far."""
    from airfl.config.without_effect import without_effect
    from airfl.radio import cut_by_bounds

    for sentence in without_effect(overrides or [], rows):
        say(sentence)
    for sentence in dict.fromkeys(filter(None, (cut_by_bounds(row.radio) for row in rows))):
        say(sentence)


def print_list(listing: list[dict[str, Any]], as_json: bool) -> None:
    """A table for people, or one JSON value."""
    if as_json:
        typer.echo(json.dumps(listing))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in listing[0]:
        table.add_column(heading, overflow="fold")
    for entry in listing:
        table.add_row(*map(_in_words, entry.values()))
    print_table(table)


def _in_words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def print_table(table: Any) -> None:
    """A table on standard output; in a narrow terminal in parts, one below the other, so that no number is cut.

    Text is printed as it stands: a bracket begins no style, a colon no picture, and nothing moves the cursor.
    """
    console = _console()
    needed = _width(sayable_table(table, console.encoding))
    if not console.is_terminal:
        # In a file or a pipe no cell is folded; the notes below are, as wide as the table.
        _console(width=max(WIDTH_OF_PLAIN_OUTPUT, needed)).print(table)
    elif needed <= console.width:
        console.print(table)
    else:
        for part in (table.title, *_parts(table, console.width), table.caption):
            if part:
                console.print(part, highlight=False)


@contextmanager
def shown_whatever(table: Any) -> Iterator[None]:
    """Writes files in the block, then prints the table: also where they cannot be written."""
    try:
        yield
    finally:
        print_table(table)


def _console(**options: Any) -> Console:
    from rich.console import Console

    return Console(markup=False, emoji=False, **options)


def _width(table: Any) -> int:
    """Of its columns where nothing is folded."""
    from rich.measure import Measurement

    title, caption, table.title, table.caption = table.title, table.caption, None, None
    wide = _console(width=WIDEST, file=io.StringIO())  # a terminal might have a width of its own
    needed = Measurement.get(wide, wide.options, table).maximum
    table.title, table.caption = title, caption
    return needed


def _parts(table: Any, width: int) -> list[Any]:
    """Tables of as many columns as fit, each with the first one, which says what a row is."""
    label, *columns = table.columns
    parts: list[list[Any]] = []
    for column in columns:
        if not parts or _width(_with_columns(table, [label, *parts[-1], column])) > width:
            parts.append([])
        parts[-1].append(column)
    return [_with_columns(table, [label, *part]) for part in parts]


def _with_columns(table: Any, columns: list[Any]) -> Any:
    from rich.table import Table

    part = Table(box=table.box, pad_edge=table.pad_edge)
    for column in columns:
        part.add_column(column.header, justify=column.justify, overflow="fold")
    for cells in zip(*(list(column.cells) for column in columns), strict=True):
        part.add_row(*cells)
    return part
