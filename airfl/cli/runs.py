"""Commands that run schemes and draw what they did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airfl.cli.app import Config, Device, Out, Overrides, print_table, say
from airfl.device import check_kind


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
    print_table(terminal_table([TableRow(settings.scheme.name, [summary])], f"{done.path}"))
    say(summary.broken_claim())


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
    print_table(terminal_table([TableRow(result.label, result.summaries) for result in results], str(out)))
    for sentence in dict.fromkeys(result.summaries[0].broken_claim() for result in results):
        say(sentence)
    if copy_to:
        files = [*files, *copy_report(files, copy_to)]
    say("written: " + ", ".join(str(file) for file in files))


def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="run folders, or folders of a comparison")],
    *,
    out: Annotated[Path, typer.Option(help="folder for learning.png and learning.pdf", show_default=False)],
) -> None:
    """Accuracy and loss against rounds, energy, resource elements."""
    from airfl.report.comparison import find_runs
    from airfl.report.figures import plot as draw

    files = draw(find_runs(folders), out)
    say("written: " + ", ".join(str(file) for file in files))
