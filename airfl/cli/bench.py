"""The command that says how fast rounds are, and where their time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airfl.cli.app import AsJson, DataDir, Device, NeededConfig, Overrides, Plugins, print_table, show
from airfl.device import check_kind
from airfl.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from airfl.bench import Bench


def bench(
    config: NeededConfig = None,
    overrides: Overrides = None,
    *,
    rounds: Annotated[int, typer.Option(metavar="N", help="rounds that are timed, after one that warms up")] = 5,
    profile: Annotated[bool, typer.Option("--profile", help="and one round, evaluated, as a table")] = False,
    as_json: AsJson = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Rounds a second, and where their time goes."""
    from airfl.config import load_settings, to_json
    from airfl.schemes import check_recipe
    from airfl.tasks import check_fit

    if config is None:
        raise UserError("bench: no CONFIG is given; name one, such as demo; airfl bench demo")
    settings = load_settings(config, overrides or [])
    check_kind(device)
    if rounds < 1:
        raise UserError(f"--rounds: {rounds} rounds cannot be timed; give at least 1")
    check_fit(settings)
    check_recipe(settings)

    from airfl.bench import bench as time_rounds

    found = time_rounds(settings, rounds, device, data_dir, profile)
    if as_json:
        typer.echo(to_json(found.figures()))
        return
    show(_sentence(found))
    if found.stages is not None:
        print_table(_stage_table(found))


def _sentence(found: Bench) -> str:
    """How fast, how much memory, on what."""
    from airfl.config.part_keys import name_of

    settings = found.settings
    return (
        f"{settings.scheme.name}, {name_of(settings.task.model)} (d = {found.dimension:,}), {settings.run.selected} of "
        f"{settings.run.devices:,} devices: {found.rounds_per_second:.4g} rounds/s (median of {len(found.seconds)}, "
        f"spread {100 * found.spread:.0f}%); {found.device}, engine {settings.local.engine}, chunk "
        f"{settings.run.chunk}, {settings.run.threads} threads; peak memory {found.peak_memory_bytes / 1e6:,.0f} MB"
    )


def _stage_table(found: Bench) -> Table:
    from rich.table import Table

    assert found.stages is not None
    total = sum(found.stages.values())
    table = Table(title="one round, evaluated", title_justify="left", box=None, pad_edge=False)
    table.add_column("stage")
    table.add_column("ms", justify="right")
    table.add_column("%", justify="right")
    for name, value in [*found.stages.items(), ("the round", total)]:
        table.add_row(name, f"{1e3 * value:,.3f}", f"{100 * value / total:.1f}")
    return table
