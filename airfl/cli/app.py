"""The Typer application, the options that commands share, and printing."""

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
from airfl.core.device import KINDS
from airfl.errors import UserError
from airfl.runtime.notebook.style import Style
from airfl.runtime.text import sayable, sayable_table, tell
from airfl.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from airfl.config import Settings

app = typer.Typer(
    name="airfl",
    cls=Commands,
    help="\b\nSimulation of federated learning over a radio channel.\n"
    "First run: airfl run demo --out runs/first; options: airfl COMMAND --help",
    epilog="Exit codes: 0 success, 1 failure or bug, 2 invalid input, 130 interrupted\n"
    "Environment: AIRFL_DATA, AIRFL_CACHE (folders), AIRFL_TRACEBACK=1 (tracebacks)",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    rich_markup_mode=None,
)

WIDTH_OF_PLAIN_OUTPUT = 150
WIDEST = 1000

_CONFIG: dict[str, Any] = {
    "help": "settings: a TOML file, or a name listed by `airfl configs`",
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
        help="settings that override those of the file, such as run.rounds=50",
        autocompletion=completion.settings,
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="output folder, new or empty", show_default=False)]
Device = Annotated[
    str,
    typer.Option(
        metavar="|".join((*KINDS, "cuda:K")),
        help="cuda:1 is the second GPU",
        autocompletion=completion.one_of(lambda: KINDS),
    ),
]


def _existing(context: typer.Context, folder: Path | None) -> Path | None:
    if folder is not None and not folder.is_dir() and not context.resilient_parsing:
        found = "a file, not a folder; give the folder that holds it" if folder.exists() else "no such folder"
        raise UserError(f"--data-dir {folder}: {found}; `airfl data path` lists the folders that are searched")
    return folder


_DATA_DIR: dict[str, Any] = {
    "metavar": "DIR",
    "help": "folder of data sets, searched before AIRFL_DATA and ./data",
    "show_default": False,
}
DataDir = Annotated[Path | None, typer.Option(**_DATA_DIR, callback=_existing)]
NewDataDir = Annotated[Path | None, typer.Option(**_DATA_DIR)]
Folders = Annotated[list[Path], typer.Argument(metavar="DIR ...", help="folders of sweeps, comparisons or runs")]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="share DIR with other processes, as number I of N; they may start and end at any time",
        show_default=False,
    ),
]
Schemes = Annotated[
    str,
    typer.Option(
        metavar="NAME,NAME",
        help="schemes, instead of the file's [[compare]] rows",
        autocompletion=completion.some_of(completion.schemes),
    ),
]


def _allow(value: bool) -> None:
    if value:
        from airfl.config.plugins import allow_plugins

        allow_plugins()


Plugins = Annotated[
    bool,
    typer.Option("--plugins", callback=_allow, is_eager=True, help="run the plugin files (code) that CONFIG names"),
]
Styled = Annotated[
    Style | None,
    typer.Option("--style", metavar="NAME", help="ieee: widths, fonts and lines for IEEE papers; needs --plot"),
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON value on standard output")]


def _version(value: bool) -> None:
    if value:
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
    """Print a message as one line on standard error."""
    if message:
        tell(" ".join(message.split()))


def check_style_of(plot: Path | None, style: str | None) -> None:
    """Raise UserError for --style without --plot, on which alone it has an effect."""
    if style and plot is None:
        raise UserError("--style needs --plot DIR; give it, or leave --style out")


def show(text: str) -> None:
    """Print text on standard output."""
    typer.echo(sayable(text, sys.stdout.encoding))


def say_without_effect(overrides: Sequence[str] | None, rows: Sequence[Settings]) -> None:
    """Print a line for each setting that has no effect, for each mean gain that the bounds change considerably, for a
    recorded channel that is interpolated or in other units, and for shadowing that takes minutes."""
    from airfl.config.without_effect import without_effect
    from airfl.uplinks.radio import cut_by_bounds, interpolated, physical_as_normalised, slow_shadowing

    for message in without_effect(overrides or [], rows):
        say(message)
    for notice in (cut_by_bounds, interpolated, physical_as_normalised):
        for message in dict.fromkeys(filter(None, (notice(row.radio) for row in rows))):
            say(message)
    for message in dict.fromkeys(filter(None, (slow_shadowing(row.radio, row.run.devices) for row in rows))):
        say(message)


def print_list(listing: list[dict[str, Any]], as_json: bool) -> None:
    """Print a list as a table, or as one JSON value."""
    if as_json:
        typer.echo(json.dumps(listing))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in listing[0]:
        table.add_column(heading, overflow="fold")
    for entry in listing:
        table.add_row(*map(_as_text, entry.values()))
    print_table(table)


def _as_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def print_table(table: Any) -> None:
    """Print a table on standard output. In a narrow terminal it is split into parts, so that no number is cut off.

    Text is printed literally: it is not interpreted as markup, emoji codes or control sequences.
    """
    console = _console()
    needed = _width(sayable_table(table, console.encoding))
    if not console.is_terminal:
        # In a file or a pipe no cell is folded. The caption is folded to the width of the table.
        _console(width=max(WIDTH_OF_PLAIN_OUTPUT, needed)).print(table)
    elif needed <= console.width:
        console.print(table)
    else:
        for part in (table.title, *_parts(table, console.width), table.caption):
            if part:
                console.print(part, highlight=False)


@contextmanager
def table_after(table: Any) -> Iterator[None]:
    """Print the table after the block, even if writing files in the block fails."""
    try:
        yield
    finally:
        print_table(table)


def _console(**options: Any) -> Console:
    from rich.console import Console

    return Console(markup=False, emoji=False, **options)


def _width(table: Any) -> int:
    """Return the width of the table if no cell is folded."""
    from rich.measure import Measurement

    title, caption, table.title, table.caption = table.title, table.caption, None, None
    wide = _console(width=WIDEST, file=io.StringIO())  # a StringIO, since a terminal would limit the width
    needed = Measurement.get(wide, wide.options, table).maximum
    table.title, table.caption = title, caption
    return needed


def _parts(table: Any, width: int) -> list[Any]:
    """Split the table into tables of as many columns as fit. Each repeats the first column, which labels the rows."""
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
