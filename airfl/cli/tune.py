"""The command that tunes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airfl.cli import completion
from airfl.cli.app import AsJson, Config, DataDir, Device, Plugins, Schemes, print_table, say, say_without_effect
from airfl.cli.sweeps import Cluster, Jobs, Seeds
from airfl.errors import UserError

if TYPE_CHECKING:
    from airfl.results.collect import Group
    from airfl.sweeps.points import Point


def tune(
    config: Config,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE,... ...]",
            help="settings; several values, or a range lo:hi:step, are tried, each key with each; with --trials also "
            "intervals lo:hi:log, lo:hi:linear",
            autocompletion=completion.axes,
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="for the runs and tuned.toml: new, empty, or to go on with")],
    schemes: Schemes = "",
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="trials a row that Optuna proposes, instead of all")
    ] = None,
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    as_json: AsJson = False,
    plugins: Plugins = False,
) -> None:
    """Choose values for each scheme on held-out data."""
    from airfl.config import load_settings, to_json
    from airfl.config.without_effect import OWNERS
    from airfl.sweeps.folder import TUNE
    from airfl.sweeps.place import Place, check_points
    from airfl.sweeps.search import check_installed, tune_by_trials
    from airfl.sweeps.tuning import check_tuned, points_of, rows_to_tune, tune_on_grid, write_tuned
    from airfl.sweeps.values import Interval, split_axes, split_intervals, values_only

    fixed, intervals = split_intervals(overrides or [])
    fixed, listed = split_axes(fixed)
    axes: dict[str, Sequence[Any] | Interval] = {**listed, **intervals}
    if not axes:
        raise UserError("nothing to tune: give values to try, for instance local.learning_rate=0.01,0.03,0.1")
    names = [name.strip() for name in schemes.split(",") if name.strip()]
    rows, where = rows_to_tune(config, names), Place(jobs, cluster, device, data_dir)
    # Said before torch is imported: every row with the first of the values.
    ends = [{key: one.low if isinstance(one, Interval) else one[0] for key, one in axes.items()}]
    firsts = points_of(config, fixed, rows, {row.label: ends for row in rows}, seeds)
    check_points(firsts, out, where, TUNE)
    check_tuned(out)
    if not OWNERS & set(axes):  # else another value of theirs may give a key its effect
        say_without_effect([*fixed, *axes], [point.settings for point in firsts])
    if trials is None:
        values_only(axes)
    else:
        check_installed()

    from airfl.report.tuning import plain_tuning, tuned_table, warnings
    from airfl.sweeps.progress import sweep_progress
    from airfl.sweeps.sweep import run_points

    def run(points: Sequence[Point]) -> Sequence[Group]:
        with sweep_progress() as report:
            return run_points(points, out, where, report, TUNE).points

    try:
        if trials is None:
            found = tune_on_grid(config, fixed, rows, values_only(axes), seeds, run)
        else:
            seed = load_settings(config, fixed).run.seed
            found = tune_by_trials(config, fixed, rows, axes, seeds, run, trials, seed)
    except KeyboardInterrupt:
        say(f"{out}: finished points are kept; the same command goes on")
        raise
    file = write_tuned(config, fixed, found, out)
    if as_json:
        typer.echo(to_json(plain_tuning(found)))
    else:
        print_table(tuned_table(found, str(out)))
    for line in warnings(found):
        say(line)
    say(f"written: {file}; airfl {'compare' if len(found) > 1 else 'run'} {file} --out DIR")
