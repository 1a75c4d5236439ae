"""The command `airfl audit`, which attacks runs to obtain lower bounds on epsilon."""

from __future__ import annotations

from typing import Annotated

import typer

from airfl.analysis.audit.options import AGAINST, ATTACKS, OTHERS, Options, check_audit, check_options
from airfl.cli import completion
from airfl.cli.app import AsJson, Config, DataDir, Device, Overrides, Plugins, print_table, say
from airfl.core.device import check_kind


def audit(
    config: Config,
    overrides: Overrides = None,
    *,
    attack: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="round (many trials of one round), run (one run with many canaries) or both",
            autocompletion=completion.one_of(lambda: ATTACKS),
        ),
    ] = "both",
    trials: Annotated[
        int, typer.Option(metavar="N", help="trials of a round, each with and without the canary")
    ] = 2000,
    canaries: Annotated[
        int | None,
        typer.Option(metavar="N", help="canaries of a run; default 100, at most half of the devices and what fits"),
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="X", help="confidence level of each lower bound")] = 0.95,
    against: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="without its canary, a device sends nothing (absent) or the negated canary (opposite)",
            autocompletion=completion.one_of(lambda: AGAINST),
        ),
    ] = "absent",
    others: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="other devices: trained, silent (no training) or opposed (worst case of replace-one)",
            autocompletion=completion.one_of(lambda: OTHERS),
        ),
    ] = "trained",
    as_json: AsJson = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Lower bounds on epsilon, by attacks on a scheme."""
    from airfl.config import load_settings, to_json
    from airfl.core.preflight import check_recipe
    from airfl.learning.chosen_task import check_fit

    options = Options(attack, trials, canaries, confidence, against, others)
    check_options(options)
    settings = load_settings(config, overrides or [])
    check_kind(device)
    check_fit(settings)
    check_recipe(settings)
    check_audit(settings, options)

    from airfl.analysis.audit.audit import audit as attack_runs
    from airfl.report.audit import audit_table, figures, verdict

    result = attack_runs(settings, options, device, True, data_dir)
    if as_json:
        typer.echo(to_json(figures(result)))
        return
    print_table(audit_table(result))
    say(verdict(result))
