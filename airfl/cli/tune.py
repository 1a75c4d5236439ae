"""The command `airfl tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airfl.cli import completion
from airfl.cli.app import AsJson, Config, DataDir, Device, Plugins, Schemes, print_table, say, say_without_effect
from airfl.cli.sweeps import Cluster, Jobs, Retries, SchedulerWait, Seeds, SharedDir, WorkerWait


def tune(
    config: Config,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE,... ...]",
            help="settings; values a,b,c or lo:hi:step are tried as a grid, with --trials also lo:hi:log, lo:hi:linear",
            autocompletion=completion.axes,
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="output folder, new or to continue")],
    schemes: Schemes = "",
    trials: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="trials per row by Optuna, not the grid"),
    ] = None,
    random_trials: Annotated[int, typer.Option(metavar="N", min=1, help="of these, first at random")] = 10,
    prune: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="end bad trials early: none, median, halving; median:20 from round 20 on",
            autocompletion=completion.one_of(lambda: ("none", "median", "halving")),
        ),
    ] = "none",
    storage: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", help="where several clients share the trials", show_default=False),
    ] = None,
    study: Annotated[str, typer.Option(metavar="NAME", help="study in the storage")] = "airfl",
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    shared_dir: SharedDir = None,
    retries: Retries = 3,
    worker_wait_s: WorkerWait = 3600.0,
    scheduler_wait_s: SchedulerWait = 300.0,
    as_json: AsJson = False,
    plugins: Plugins = False,
) -> None:
    """Tune settings of each scheme on held-out data."""
    from airfl.config import to_json
    from airfl.config.swept_values import split_axes, split_intervals
    from airfl.config.without_effect import OWNERS
    from airfl.study.sweeps.place import place_of
    from airfl.study.sweeps.trials.plan import plan_of
    from airfl.study.sweeps.tuning import check_tuning, checked_axes, rows_to_tune

    plan = plan_of(trials, random_trials, prune, storage, study)
    fixed, intervals = split_intervals(overrides or [])
    fixed, listed = split_axes(fixed)
    axes = checked_axes({**listed, **intervals})
    names = [name.strip() for name in schemes.split(",") if name.strip()]
    rows = rows_to_tune(config, names)
    place = place_of(jobs, cluster, device, data_dir, shared_dir, retries, worker_wait_s, scheduler_wait_s)
    firsts = check_tuning(config, fixed, rows, axes, seeds, out, place, plan)
    if not OWNERS & set(axes):  # otherwise another value of these keys may give a key its effect
        say_without_effect([*fixed, *axes], [point.settings for point in firsts])
    if plan is not None and plan.trials <= plan.random_trials:
        say(
            f"--trials {plan.trials}: all values are drawn at random, because Optuna's sampler begins to learn after "
            f"{plan.random_trials} trials; give more trials, or a smaller --random-trials"
        )

    from airfl.report.tuning import plain_tuning, tuned_table, warnings
    from airfl.study.sweeps.tune import tune as choose

    try:
        tuning = choose(
            config,
            axes,
            out=out,
            overrides=fixed,
            schemes=names,
            trials=trials,
            random_trials=random_trials,
            prune=prune,
            storage=storage,
            study=study,
            seeds=seeds,
            jobs=jobs,
            cluster=cluster,
            device=device,
            data_dir=data_dir,
            shared_dir=shared_dir,
            retries=retries,
            worker_wait_s=worker_wait_s,
            scheduler_wait_s=scheduler_wait_s,
            progress=True,
        )
    except KeyboardInterrupt:
        say(f"{out}: finished points are kept; run the same command to continue")
        raise
    chosen, file = tuning.chosen, tuning.file
    if as_json:
        typer.echo(to_json(plain_tuning(chosen)))
    else:
        print_table(tuned_table(chosen, str(out)))
    for line in warnings(chosen):
        say(line)
    say(f"written: {file}; airfl {'compare' if len(chosen) > 1 else 'run'} {file} --out DIR")
