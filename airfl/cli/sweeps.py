"""Commands for many runs: sweep, results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from airfl.cli import completion
from airfl.cli.app import (
    AsJson,
    Config,
    DataDir,
    Device,
    Folders,
    Plugins,
    print_table,
    say,
    say_without_effect,
    shown_whatever,
)
from airfl.errors import MachineError, UserError

if TYPE_CHECKING:
    from airfl.results.collect import Group

Seeds = Annotated[int, typer.Option(metavar="N", min=1, help="runs a point, seeds counted up from run.seed")]
Jobs = Annotated[int, typer.Option(metavar="N", min=1, help="points at a time, on this machine")]
Cluster = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="of a Dask scheduler that runs the points", show_default=False)
]


def sweep(
    config: Config,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE,... ...]",
            help="settings; several values, or an inclusive range lo:hi:step, are swept over, each key with each",
            autocompletion=completion.axes,
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="new, empty, or a sweep to go on with")],
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    zip_keys: Annotated[
        list[str] | None,
        typer.Option(
            "--zip",
            metavar="KEY,KEY",
            help="keys that go together, value by value",
            autocompletion=completion.some_of(completion.keys),
        ),
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="each of the file's [[compare]] rows at each point")] = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Run a grid of points; what is finished is kept."""
    from airfl.results.tidy import check_files, write
    from airfl.sweeps.points import Plan, build_points
    from airfl.sweeps.values import split_axes

    fixed, axes = split_axes(overrides or [])
    zipped = [[key.strip() for key in group.split(",")] for group in zip_keys or []]
    points = build_points(config, fixed, Plan(axes, zipped, rows=rows, seeds=seeds))
    from airfl.sweeps.place import Place, check_points

    where = Place(jobs, cluster, device, data_dir)
    check_points(points, out, where)
    check_files(out, replace=True)
    say_without_effect([*fixed, *axes], [point.settings for point in points])

    from airfl.report.results import results_table
    from airfl.sweeps.progress import sweep_progress
    from airfl.sweeps.sweep import run_points

    try:
        with sweep_progress() as report:
            results = run_points(points, out, where, report)
    except KeyboardInterrupt:
        say(f"{out}: finished points are kept; the same command goes on")
        raise
    if results.runs:
        with shown_whatever(results_table(results, str(out))):
            files = write(results, out, replace=True)
        say("written: " + ", ".join(str(file) for file in files))
    for line in results.unreadable.values():
        say(f"left out: {line}")
    failed = sum(str(out / point.folder) in results.failed for point in points)
    if failed:
        raise MachineError(f"{out}: {failed} of {len(points)} points failed; the same command tries them again")


def results(
    folders: Folders,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder for results.parquet and results.csv, a line a run")
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="KEY", help="a swept key or a figure to sort by")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COST[=VALUE]",
            help="accuracy at equal rounds, energy, resource_elements, air_time_s or uplink_bits; without a value at "
            "the largest that all reach",
            autocompletion=completion.one_of(completion.costs),
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(metavar="ACCURACY", min=0, max=1, help="what it costs to reach this accuracy, a share of 1"),
    ] = None,
) -> None:
    """Averages over seeds; comparisons at equal cost."""
    from airfl.config import to_json
    from airfl.report.results import equal_table, plain_results, results_table, target_table
    from airfl.results import read_results

    if out:
        from airfl.results.tidy import check_files

        check_files(out)
    found = read_results(folders)
    budgets = dict(_budget(text, found.groups) for text in at or [])
    table = results_table(found, ", ".join(map(str, folders)), sort) if found.runs else None
    files = []
    if out:
        from airfl.results.tidy import write

        files = write(found, out)
    if as_json:
        typer.echo(to_json(plain_results(found, sort, budgets, target)))
    elif table is not None:
        print_table(table)
        if budgets:
            print_table(equal_table(found, budgets, sort))
        if target is not None:
            print_table(target_table(found, target, sort))
    for line in found.unreadable.values():
        say(f"left out: {line}")
    for folder, cause in found.failed.items():
        say(f"failed: {folder}: {cause}")
    if found.missing:
        say(f"{found.missing} points are not finished; the same `airfl sweep` goes on with them")
    if files:
        say("written: " + ", ".join(str(file) for file in files))


def _budget(text: str, groups: Sequence[Group]) -> tuple[str, float]:
    """COST or COST=VALUE."""
    from airfl.results.equal_cost import check_cost, check_units, common_budget

    cost, equals, value = text.partition("=")
    check_cost(cost)
    check_units(groups, cost)
    if not equals:
        return cost, common_budget(groups, cost)
    try:
        budget = float(value)
    except ValueError:
        budget = 0.0
    if not budget > 0:
        raise UserError(f"--at {text}: a number above 0 is wanted, for instance {cost}=1000")
    return cost, budget
