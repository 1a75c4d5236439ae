"""The commands `airfl run`, `compare`, `budget` and `plot`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from airfl.cli.app import (
    AsJson,
    Config,
    DataDir,
    Device,
    Folders,
    Out,
    Overrides,
    Plugins,
    Schemes,
    Shard,
    Styled,
    check_style_of,
    print_table,
    say,
    say_without_effect,
    table_after,
)
from airfl.core.device import check_kind
from airfl.errors import DivergedError, RunInterruptedError, UserError
from airfl.runtime.notebook.style import Style
from airfl.runtime.numbers import counted

Resume = Annotated[bool, typer.Option("--resume", help="resume an interrupted run in OUT")]
Tensorboard = Annotated[bool, typer.Option("--tensorboard", help="write scalars of every round to OUT/tensorboard")]


@contextmanager
def _resumable(out: Path, name: str) -> Iterator[None]:
    """Say how to go on where an interrupt ends the block at once and the file is there that shows what was begun."""
    try:
        yield
    except KeyboardInterrupt:
        if not (out / name).exists():
            raise
        raise RunInterruptedError(f"{out}: interrupted; resume it with the same command and --resume") from None


def run(
    config: Config,
    overrides: Overrides = None,
    *,
    out: Out,
    device: Device = "cpu",
    data_dir: DataDir = None,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
    plugins: Plugins = False,
) -> None:
    """Run one scheme and write its trace to OUT/trace.h5."""
    from airfl.config import load_settings
    from airfl.core.callbacks.tensorboard import TensorBoard, check_live
    from airfl.core.preflight import check_recipe
    from airfl.learning.chosen_task import check_fit
    from airfl.storage.output_files import CHECKPOINT_NAME, check_can_be_folder, check_no_run

    settings = load_settings(config, overrides or [])
    check_kind(device)
    check_can_be_folder(out)
    if not resume:
        check_no_run(out)
    if tensorboard:
        check_live(out, resume)
    check_fit(settings)
    check_recipe(settings)
    say_without_effect(overrides, [settings])

    from airfl.analysis.calculator import unmet
    from airfl.core.progress import planned, round_progress
    from airfl.core.summary import summary_of
    from airfl.report.table import TableRow, terminal_table
    from airfl.simulation import is_complete
    from airfl.simulation import run as simulate

    if resume and is_complete(out, settings):
        summary = summary_of(out)
        say(f"{out}: already complete, {counted(summary.rounds, 'round')}; nothing to do")
        print_table(terminal_table([TableRow(settings.scheme.name, [summary])], f"{out}"))
        return
    name = settings.scheme.name
    callbacks = [TensorBoard()] if tensorboard else []
    with _resumable(out, CHECKPOINT_NAME), round_progress([planned(name, settings)]) as progress:
        report = progress.reporter(name)
        done = simulate(settings, out, device, report, data_dir, resume=resume, finish_rounds=True, callbacks=callbacks)
    summary = done.summary()
    print_table(terminal_table([TableRow(settings.scheme.name, [summary])], f"{done.path}"))
    say(summary.broken_claim())
    say(unmet(settings, summary.epsilon, data_dir))


def compare(
    config: Config,
    overrides: Overrides = None,
    *,
    out: Out,
    schemes: Schemes = "",
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="seeds per row, counted from run.seed")] = 1,
    device: Device = "cpu",
    data_dir: DataDir = None,
    copy_to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder for copies of table and figure, which are overwritten")
    ] = None,
    resume: Resume = False,
    shard: Shard = None,
    tensorboard: Tensorboard = False,
    plugins: Plugins = False,
) -> None:
    """Run several schemes on the same devices and channels."""
    from airfl.config import load_rows
    from airfl.core.callbacks.tensorboard import FOLDER, TensorBoard, check_live
    from airfl.core.preflight import check_recipe
    from airfl.learning.chosen_task import check_fit
    from airfl.report.comparison import check_copies, check_report
    from airfl.storage.output_files import ROWS_NAME
    from airfl.study.rows import check_comparison
    from airfl.study.shards import shard_of

    one_of_several = shard_of(shard)
    if one_of_several and tensorboard:
        raise UserError("--shard and --tensorboard: processes that share a comparison cannot share its event files")
    names = [name.strip() for name in schemes.split(",") if name.strip()]
    rows = load_rows(config, overrides or [], names)
    check_kind(device)
    check_comparison(out, [row.label for row in rows], resume or one_of_several is not None)
    if resume or one_of_several:
        check_report(out)
    if copy_to:
        check_copies(copy_to)
    if tensorboard:
        check_live(out, resume)
    for row in rows:
        check_fit(row.settings)
        check_recipe(row.settings)
    say_without_effect(overrides, [row.settings for row in rows])

    from airfl.analysis.calculator import unmet
    from airfl.core.progress import round_progress
    from airfl.report.comparison import copy_report, write_report
    from airfl.report.table import TableRow, terminal_table
    from airfl.study.compare import compare as compare_rows
    from airfl.study.compare import plan_of

    callbacks = [TensorBoard(out / FOLDER)] if tensorboard else []
    with _resumable(out, ROWS_NAME), round_progress(plan_of(rows, seeds)) as progress:
        report = progress.labelled_reporter()
        results = compare_rows(
            rows,
            seeds,
            out,
            device,
            report,
            data_dir,
            resume=resume,
            finish_rounds=True,
            callbacks=callbacks,
            shard=one_of_several,
        )
    ended = sum(len(result.folders) for result in results)
    if ended < len(rows) * seeds:  # only with --shard: the process that ends last writes table and figure
        say(f"{out}: {ended} of {len(rows) * seeds} runs have ended; other processes run the others")
        return
    with table_after(terminal_table([TableRow(result.label, result.summaries) for result in results], str(out))):
        files = write_report(results, out)
        if copy_to:
            files = [*files, *copy_report(files, copy_to)]
    for message in dict.fromkeys(result.summaries[0].broken_claim() for result in results):
        say(message)
    for row, result in zip(rows, results, strict=True):
        say(unmet(row.settings, result.summaries[0].epsilon, data_dir))
    say("written: " + ", ".join(str(file) for file in files))
    failures = [failure for result in results for failure in result.failures]
    if failures:
        raise DivergedError(f"{out}: {'; '.join(failures)}")


def budget(
    config: Config,
    overrides: Overrides = None,
    *,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="output folder for budget.png and budget.pdf")
    ] = None,
    style: Styled = None,
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Energy, resources and privacy of a run, without running it."""
    from airfl.config import load_settings, to_json
    from airfl.report.budget import FILES, budget_table, plot_budget
    from airfl.report.figures import check_new_figures

    settings = load_settings(config, overrides or [])
    check_style_of(plot, style)
    if plot:
        check_new_figures(plot, FILES)

    say_without_effect(overrides, [settings])

    from airfl.analysis.budget import link_budget

    result = link_budget(settings, data_dir)
    files = plot_budget(result, plot, style) if plot else []
    if as_json:
        typer.echo(to_json(result.figures()))
    else:
        print_table(budget_table(result, settings.delta))
    if files:
        say("written: " + ", ".join(str(file) for file in files))


def plot(
    folders: Folders,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="output folder for the figures, as .png and .pdf")],
    style: Annotated[
        Style | None, typer.Option(metavar="NAME", help="ieee: widths, fonts and lines for IEEE papers")
    ] = None,
) -> None:
    """Plot learning over rounds, energy, resources; privacy."""
    from airfl.analysis.results import read_some_results
    from airfl.analysis.results.units import check_one_unit
    from airfl.report.comparison import FIGURES, write_figures
    from airfl.report.figures import check_new_figures
    from airfl.report.paper.names import group_names
    from airfl.storage.output_files import no_empty_folder

    check_new_figures(out, FIGURES, "--out")
    results = read_some_results(folders)
    for line in results.unreadable.values():
        say(f"left out: {line}")
    check_one_unit("plot", (run.digest.summary.energy_units for run in results.runs))
    names = group_names(results.groups, results.axes)
    groups = [(name, [run.folder for run in group.runs]) for name, group in zip(names, results.groups, strict=True)]
    with no_empty_folder(out):
        files = write_figures(groups, out, lambda line: say(f"left out: {line}"), style)
    say("written: " + ", ".join(str(file) for file in files))
