"""The command that attacks what other commands claim."""

from __future__ import annotations

from typing import Annotated

import typer

from airfl.audit.options import AGAINST, ATTACKS, OTHERS, Options, check_audit, check_options
from airfl.cli import completion
from airfl.cli.app import AsJson, Config, DataDir, Device, Overrides, Plugins, print_table, say
from airfl.device import check_kind


def audit(
    config: Config,
    overrides: Overrides = None,
    *,
    attack: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="round (many trials of one), run (one, many canaries) or both",
            autocompletion=completion.one_of(lambda: ATTACKS),
        ),
    ] = "both",
    trials: Annotated[int, typer.Option(metavar="N", help="rounds, each played with the canary and without")] = 2000,
    canaries: Annotated[
        int | None, typer.Option(metavar="N", help="canaries of the run; 100, or what there is room for")
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="X", help="of each lower bound")] = 0.95,
    against: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="a device without its canary sends nothing (absent) or turns it round (opposite)",
            autocompletion=completion.one_of(lambda: AGAINST),
        ),
    ] = "absent",
    others: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="other devices: trained, silent (nobody trains) or opposed (worst case of replace-one)",
            autocompletion=completion.one_of(lambda: OTHERS),
        ),
    ] = "trained",
    as_json: AsJson = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Lower bounds on epsilon, by attacks on runs of a scheme."""
    from airfl.config import load_settings, to_json
    from airfl.schemes import check_recipe
    from airfl.tasks import check_fit

    options = Options(attack, trials, canaries, confidence, against, others)
    check_options(options)
    settings = load_settings(config, overrides or [])
    check_kind(device)
    check_fit(settings)
    check_recipe(settings)
    check_audit(settings, options)

    from airfl.audit.audit import audit as attack_runs
    from airfl.report.audit import audit_table, figures, verdict

    found = attack_runs(settings, options, device, True, data_dir)
    if as_json:
        typer.echo(to_json(figures(found)))
        return
    print_table(audit_table(found))
    say(verdict(found))
