"""The commands `airfl data`, which download data sets and list where they are."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from airfl.cli import completion
from airfl.cli.app import AsJson, NewDataDir, print_list, say, show
from airfl.cli.help import Command, Commands

SECONDS_BETWEEN_LINES = 5.0

data_app = typer.Typer(
    name="data",
    cls=Commands,
    help="Data sets on disk: download them, or list where they are.",
    epilog="Example: airfl data path",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@data_app.command(cls=Command, epilog="airfl data get cifar10 --data-dir data")
def get(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="a name listed by `airfl datasets`",
            autocompletion=completion.one_of(completion.downloads),
        ),
    ],
    data_dir: NewDataDir = None,
) -> None:
    """Download a data set into --data-dir, else AIRFL_DATA, else ./data."""
    from airfl.learning.tasks.datasets import DATASETS, data_folders
    from airfl.learning.tasks.downloads.download import get as download
    from airfl.learning.tasks.downloads.sources import DOWNLOADS, hosts

    if name in DOWNLOADS:
        say(f"{name}: from {', '.join(hosts(name))}; licence: {DATASETS[name].licence}")
    with _bytes_progress() as report:
        files = download(name, data_folders(data_dir)[0], report)
    say(f"available: {', '.join(str(file) for file in files)}")


@data_app.command(cls=Command, epilog="airfl data path")
def path(data_dir: NewDataDir = None, as_json: AsJson = False) -> None:
    """Folders searched for data sets, and which are available."""
    from airfl.cli.checkup.places import found_datasets
    from airfl.learning.tasks.datasets import data_folders
    from airfl.storage.cache import cache_folder

    folders = data_folders(data_dir)
    available = found_datasets(folders)
    if as_json:
        typer.echo(json.dumps({"folders": [str(f) for f in folders], "cache": str(cache_folder()), "found": available}))
        return
    for folder in folders:
        show(f"searched: {folder}{'' if folder.is_dir() else ' (does not exist)'}")
    show(f"cache:    {cache_folder()}")
    listing = [
        {"name": name, "found": location or f"no; airfl data get {name}"} for name, location in available.items()
    ]
    print_list(listing, as_json=False)


@contextmanager
def _bytes_progress() -> Iterator[Any]:
    """Yield a progress function for downloads, which shows a bar in a terminal and prints lines elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_reporter()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        tasks: dict[str, Any] = {}

        def report(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)

        yield report


def _line_reporter() -> Any:
    last = time.monotonic()

    def report(file: str, done: int, total: int | None) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(f"{file}: {done / 1e6:,.1f} MB{f' of {total / 1e6:,.1f}' if total else ''}")

    return report
