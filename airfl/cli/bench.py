"""The command `airfl bench`, which measures the speed of rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airfl.cli.app import AsJson, DataDir, Device, NeededConfig, Overrides, Plugins, print_table, show
from airfl.core.device import check_kind
from airfl.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from airfl.analysis.bench import Bench


def bench(
    config: NeededConfig = None,
    overrides: Overrides = None,
    *,
    rounds: Annotated[int, typer.Option(metavar="N", help="number of timed rounds, after one warm-up round")] = 5,
    profile: Annotated[
        bool, typer.Option("--profile", help="also print a table of the stages of one round with evaluation")
    ] = False,
    as_json: AsJson = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Rounds per second, and time per stage."""
    from airfl.config import load_settings, to_json
    from airfl.core.preflight import check_recipe
    from airfl.learning.chosen_task import check_fit

    if config is None:
        raise UserError("bench: CONFIG is missing; give a configuration, for instance airfl bench demo")
    settings = load_settings(config, overrides or [])
    check_kind(device)
    if rounds < 1:
        raise UserError(f"--rounds must be at least 1, got {rounds}")
    check_fit(settings)
    check_recipe(settings)

    from airfl.analysis.bench import bench as time_rounds

    result = time_rounds(settings, rounds, device, data_dir, profile)
    if as_json:
        typer.echo(to_json(result.figures()))
        return
    show(_summary(result))
    if result.stages is not None:
        print_table(_stage_table(result))


def _summary(result: Bench) -> str:
    """Return one line on the speed, the memory, and what was measured."""
    from airfl.config.part_keys import name_of
    from airfl.runtime.numbers import counted

    settings = result.settings
    return (
        f"{settings.scheme.name}, {name_of(settings.task.model)} (d = {result.dimension:,}), {settings.run.selected} "
        f"of {settings.run.devices:,} devices: {result.rounds_per_second:.4g} rounds/s (median of "
        f"{len(result.seconds)}, spread {100 * result.spread:.0f}%); {result.device}, engine {settings.local.engine}, "
        f"chunk {settings.run.chunk}, {counted(settings.run.threads or 0, 'thread')}; "
        f"peak memory {result.peak_memory_bytes / 1e6:,.0f} MB"
    )


def _stage_table(result: Bench) -> Table:
    from rich.table import Table

    assert result.stages is not None
    total = sum(result.stages.values())
    table = Table(title="one round with evaluation", title_justify="left", box=None, pad_edge=False)
    table.add_column("stage")
    table.add_column("ms", justify="right")
    table.add_column("%", justify="right")
    for name, value in [*result.stages.items(), ("total", total)]:
        table.add_row(name, f"{1e3 * value:,.3f}", f"{100 * value / total:.1f}")
    return table
