"""The commands `airfl sweep` and `airfl results`."""

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
    Shard,
    print_table,
    say,
    say_without_effect,
    table_after,
)
from airfl.errors import MachineError, UserError

if TYPE_CHECKING:
    from airfl.analysis.results.result import Group

Seeds = Annotated[int, typer.Option(metavar="N", min=1, help="seeds, counted from run.seed")]
Jobs = Annotated[
    int,
    typer.Option(metavar="N", min=0, help="points run in parallel on this machine; 0 = as many as cores or GPUs allow"),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="address of a Dask scheduler that runs the points", show_default=False),
]

SharedDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="folder that all workers share, for checkpoints",
        show_default=False,
    ),
]
Retries = Annotated[int, typer.Option(metavar="N", min=0, help="reruns of a lost point")]
WorkerWait = Annotated[
    float,
    typer.Option("--worker-wait-s", metavar="SECONDS", min=0, help="longest wait for a worker"),
]
SchedulerWait = Annotated[
    float,
    typer.Option("--scheduler-wait-s", metavar="SECONDS", min=0, help="longest wait for a lost scheduler to come back"),
]


def sweep(
    config: Config,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE,... ...]",
            help="settings; several values, or an inclusive range lo:hi:step, are swept over as a grid",
            autocompletion=completion.axes,
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="output folder: new, empty, or a sweep to continue")],
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    zip_keys: Annotated[
        list[str] | None,
        typer.Option(
            "--zip",
            metavar="KEY,KEY",
            help="keys that vary together, value by value",
            autocompletion=completion.some_of(completion.keys),
        ),
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="run each of the file's [[compare]] rows at each point")] = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    shared_dir: SharedDir = None,
    retries: Retries = 3,
    worker_wait_s: WorkerWait = 3600.0,
    scheduler_wait_s: SchedulerWait = 300.0,
    shard: Shard = None,
    plugins: Plugins = False,
) -> None:
    """Run a grid of settings; continues a previous sweep."""
    from airfl.analysis.results.tidy import check_files, write
    from airfl.config.swept_values import split_axes
    from airfl.study.sweeps.points import SweepPlan, build_points

    fixed, axes = split_axes(overrides or [])
    zipped = [[key.strip() for key in group.split(",")] for group in zip_keys or []]
    points = build_points(config, fixed, SweepPlan(axes, zipped, rows=rows, seeds=seeds))
    from airfl.study.sweeps.place import check_points, place_of

    place = place_of(jobs, cluster, device, data_dir, shared_dir, retries, worker_wait_s, scheduler_wait_s, shard)
    check_points(points, out, place)
    check_files(out, replace=True)
    say_without_effect([*fixed, *axes], [point.settings for point in points])

    from airfl.report.results import results_table
    from airfl.study.sweeps.progress import sweep_progress
    from airfl.study.sweeps.sweep import run_points

    try:
        with sweep_progress() as report:
            results = run_points(points, out, place, report)
    except KeyboardInterrupt:
        say(f"{out}: finished points are kept; run the same command to continue")
        raise
    left = results.left_of(str(out / point.folder) for point in points)
    if left:  # only with --shard: the process that ends last writes the tables
        say(f"{out}: {len(points) - left} of {len(points)} points have ended; other processes run the others")
    elif results.runs:
        with table_after(results_table(results, str(out))):
            files = write(results.frame(), out, replace=True)
        say("written: " + ", ".join(str(file) for file in files))
    for line in results.unreadable.values():
        say(f"left out: {line}")
    failed = sum(str(out / point.folder) in results.failed for point in points)
    if failed:
        raise MachineError(f"{out}: {failed} of {len(points)} points failed; run the same command to retry them")


def results(
    folders: Folders,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="output folder for results.parquet and results.csv, with one row per run"),
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="KEY", help="swept key or column to sort by")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COST[=VALUE]",
            help="accuracy at equal rounds, energy, resource_elements, air_time_s or uplink_bits; default VALUE: the "
            "largest that all runs reach",
            autocompletion=completion.one_of(completion.costs),
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(metavar="ACCURACY", min=0, max=1, help="cost of reaching this accuracy, from 0 to 1"),
    ] = None,
) -> None:
    """Averages over seeds; comparisons at equal cost."""
    from airfl.analysis.results import read_results
    from airfl.config import to_json
    from airfl.report.results import equal_table, plain_results, results_table, target_table

    if out:
        from airfl.analysis.results.tidy import check_files

        check_files(out)
    read = read_results(folders)
    budgets = dict(_budget(text, read.groups) for text in at or [])
    table = results_table(read, ", ".join(map(str, folders)), sort) if read.runs else None
    files = []
    if out:
        from airfl.analysis.results.tidy import write

        files = write(read.frame(), out)
    if as_json:
        typer.echo(to_json(plain_results(read, sort, budgets, target)))
    elif table is not None:
        print_table(table)
        if budgets:
            print_table(equal_table(read, budgets, sort))
        if target is not None:
            print_table(target_table(read, target, sort))
    for line in read.unreadable.values():
        say(f"left out: {line}")
    for folder, cause in read.failed.items():
        say(f"failed: {folder}: {cause}")
    for point, who in read.running.items():
        say(f"running: {point}: {who}")
    if read.missing:
        say(f"{read.missing} points are not finished; run the same `airfl sweep` command to continue")
    if files:
        say("written: " + ", ".join(str(file) for file in files))


def _budget(text: str, groups: Sequence[Group]) -> tuple[str, float]:
    """Parse COST or COST=VALUE. Without a value, the budget is the largest cost that all groups reach."""
    from airfl.analysis.results.equal_cost import check_cost, check_units, common_budget

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
        raise UserError(f"--at {text}: VALUE must be a positive number, for instance {cost}=1000")
    return cost, budget
