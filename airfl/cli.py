"""The command line. Exit codes: 0 done, 2 the user's input, 1 a failure of ours or the machine's, 130 interrupted.

Settings are validated before torch is imported; messages go to standard error, one line each.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from airfl.device import check_kind
from airfl.errors import UserError
from airfl.schemes.names import SCHEME_NAMES
from airfl.version import __version__

app = typer.Typer(
    name="airfl",
    help="Federated learning whose uplink is a radio channel.",
    epilog="Example: airfl compare experiments/configs/demo.toml --out runs/first",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    rich_markup_mode=None,
)

WIDTH_OF_PLAIN_OUTPUT = 150

Config = Annotated[Path, typer.Argument(help="settings, a TOML file", show_default=False)]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="settings that replace the file's")
]
Out = Annotated[Path, typer.Option(help="output folder, new or empty", show_default=False)]
Device = Annotated[str, typer.Option(help="cpu or cuda")]
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


@app.command(epilog="Example: airfl run experiments/configs/demo.toml scheme.name=wfl-p run.rounds=50 --out runs/wfl-p")
def run(config: Config, overrides: Overrides = None, *, out: Out, device: Device = "cpu") -> None:
    """Run one scheme; the trace goes to OUT/trace.h5."""
    from airfl.config import load_settings
    from airfl.output import check_no_run
    from airfl.schemes import check_recipe

    settings = load_settings(config, overrides or [])
    check_kind(device)
    check_no_run(out)
    check_recipe(settings)

    from airfl.progress import round_progress
    from airfl.report.table import TableRow, terminal_table
    from airfl.simulation import run as simulate

    with round_progress() as progress:
        done = simulate(settings, out, device, progress.reporter(settings.scheme.name))
    summary = done.summary()
    _print_table(terminal_table([TableRow(settings.scheme.name, [summary])], f"{done.path}"))
    _say(summary.broken_claim())


@app.command(
    epilog="Example: airfl compare experiments/configs/demo.toml --schemes pfels,fedavg --seeds 3 --out runs/two"
)
def compare(
    config: Config,
    overrides: Overrides = None,
    *,
    out: Out,
    schemes: Annotated[str, typer.Option(help="a,b,...: these schemes instead of the file's [[compare]] rows")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="seeds a row, counted up from run.seed")] = 1,
    device: Device = "cpu",
    copy_to: Annotated[Path | None, typer.Option(help="folder for a copy of table and figure, replaced there")] = None,
) -> None:
    """Run several rows on the same devices and fades; table, figure."""
    from airfl.config import load_rows
    from airfl.output import check_new
    from airfl.schemes import check_recipe

    names = [name.strip() for name in schemes.split(",") if name.strip()]
    rows = load_rows(config, overrides or [], names)
    check_kind(device)
    check_new(out)
    for row in rows:
        check_recipe(row.settings)

    from airfl.compare import compare as compare_rows
    from airfl.progress import round_progress
    from airfl.report.comparison import copy_report, write_report
    from airfl.report.table import TableRow, terminal_table

    with round_progress() as progress:
        results = compare_rows(rows, seeds, out, device, progress.labelled_reporter())
    files = write_report(results, out)
    _print_table(terminal_table([TableRow(result.label, result.summaries) for result in results], str(out)))
    for sentence in dict.fromkeys(result.summaries[0].broken_claim() for result in results):
        _say(sentence)
    if copy_to:
        files = [*files, *copy_report(files, copy_to)]
    _say("written: " + ", ".join(str(file) for file in files))


@app.command(epilog="Example: airfl schemes --json")
def schemes(as_json: AsJson = False) -> None:
    """The schemes: name, link, paper."""
    from airfl.schemes import scheme

    entries = [scheme(name) for name in SCHEME_NAMES]
    listing = [
        {"name": e.name, "title": e.title, "paper": e.paper, "link": e.link, "file": _file_of(e.name)} for e in entries
    ]
    _list(listing, as_json)


@app.command(epilog="Example: airfl models")
def models(as_json: AsJson = False) -> None:
    """The models: name, parameters, input shape, classes."""
    from airfl.tasks.models import MODELS

    listing = [
        {
            "name": name,
            "parameters": m.parameters,
            "input_shape": list(m.input_shape),
            "classes": m.classes,
            "text": m.text,
        }
        for name, m in MODELS.items()
    ]
    _list(listing, as_json)


@app.command(epilog="Example: airfl datasets")
def datasets(as_json: AsJson = False) -> None:
    """The data sets: name, input shape, classes."""
    from airfl.tasks.datasets import DATASETS

    listing = [
        {"name": name, "input_shape": list(d.input_shape), "classes": d.classes, "text": d.text}
        for name, d in DATASETS.items()
    ]
    _list(listing, as_json)


@app.command(epilog="Example: airfl config experiments/configs/demo.toml power.strict=true")
def config(
    path: Annotated[Path | None, typer.Argument(metavar="[CONFIG]", help="settings to check and print")] = None,
    overrides: Overrides = None,
    *,
    schema: Annotated[bool, typer.Option("--schema", help="the JSON schema of all settings")] = False,
) -> None:
    """Check settings and print them with defaults, or their schema."""
    from airfl.config import Settings, load_settings, to_json

    if schema:
        typer.echo(to_json(Settings.model_json_schema(), indent=2))
        return
    if path is None:
        raise UserError("config: a settings file or --schema is wanted")
    typer.echo(to_json(load_settings(path, overrides or []).model_dump(), indent=2))


@app.command(epilog="Example: airfl plot runs/first --out runs/first-figures")
def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="run folders, or folders of a comparison")],
    *,
    out: Annotated[Path, typer.Option(help="folder for learning.png and learning.pdf", show_default=False)],
) -> None:
    """Accuracy and loss against rounds, energy, resource elements."""
    from airfl.report.comparison import find_runs
    from airfl.report.figures import plot as draw

    files = draw(find_runs(folders), out)
    _say("written: " + ", ".join(str(file) for file in files))


def main() -> None:
    """Entry point: runs a command and turns every ending into an exit code and at most one line."""
    try:
        # Typer turns an interrupt, and --help, into a returned exit code here.
        code = app(standalone_mode=False)
        if isinstance(code, int) and code:
            _end("interrupted", code)
    except UserError as error:
        _end(str(error), 2)
    except typer.Abort:
        _end("interrupted", 130)
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage:
            _end(usage(), getattr(error, "exit_code", 2))
        if os.environ.get("AIRFL_TRACEBACK"):
            raise
        _end(f"failed: {type(error).__name__}: {error} (AIRFL_TRACEBACK=1 shows where)", 1)


def _end(message: str, code: int) -> None:
    _say(f"airfl: {message}")
    sys.exit(code)


def _say(message: str | None) -> None:
    if message:
        typer.echo(" ".join(message.split()), err=True)


def _list(listing: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(listing))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in listing[0]:
        table.add_column(heading, overflow="fold")
    for entry in listing:
        table.add_row(*(str(value) for value in entry.values()))
    _print_table(table)


def _file_of(name: str) -> str:
    return SCHEME_NAMES[name].replace(".", "/") + ".py"


def _print_table(table: Any) -> None:
    from rich.console import Console

    console = Console()
    # In a file or a pipe nothing is folded: 80 columns are a terminal's limit.
    (console if console.is_terminal else Console(width=WIDTH_OF_PLAIN_OUTPUT)).print(table)


if __name__ == "__main__":
    main()
