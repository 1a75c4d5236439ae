"""The command that says what a run's privacy is worth, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from airfl.cli import completion
from airfl.cli.app import AsJson, DataDir, MaybeConfig, Overrides, Plugins, print_table, say
from airfl.errors import UserError

Sampling = Literal["poisson", "without_replacement", "none"]
Adjacency = Literal["add_remove", "replace_one"]

BARE = "of bare numbers, instead of CONFIG"


def privacy(
    config: MaybeConfig = None,
    overrides: Overrides = None,
    *,
    noise_multiplier: Annotated[
        float | None, typer.Option(metavar="X", help=f"sigma over C, {BARE}; without it --epsilon asks for it")
    ] = None,
    sampling_rate: Annotated[float, typer.Option(metavar="Q", help="q = r/N")] = 1.0,
    rounds: Annotated[int, typer.Option(metavar="T", help="how many")] = 1,
    delta: Annotated[float | None, typer.Option(metavar="X", help="of the statement")] = None,
    sampling: Annotated[
        Sampling | None, typer.Option(metavar="KIND", help=f"{', '.join(get_args(Sampling))}; default poisson")
    ] = None,
    adjacency: Annotated[
        Adjacency | None,
        typer.Option(
            metavar="KIND", help=f"{', '.join(get_args(Adjacency))}; default replace_one for without_replacement"
        ),
    ] = None,
    accountant: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto, pld, rdp, dominating-pair, closed-form ...",
            autocompletion=completion.one_of(completion.accountants),
        ),
    ] = "auto",
    epsilon: Annotated[
        float | None, typer.Option(metavar="X", help="the inverse: the smallest noise multiplier for it")
    ] = None,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(metavar="DIR", help="folder for privacy.png and privacy.pdf")] = None,
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Claimed and true epsilon of a run, or of bare numbers."""
    from airfl.config import to_json

    if config is None:
        from airfl.bare_numbers import BareNumbers, bare_figures
        from airfl.report.privacy import bare_table

        if overrides or plot:
            raise UserError("privacy: --plot and section.key=value need a CONFIG; bare numbers take neither")
        given = BareNumbers(noise_multiplier, sampling_rate, rounds, delta, sampling, adjacency, accountant, epsilon)
        found = bare_figures(given)
        if as_json:
            typer.echo(to_json(found))
        else:
            print_table(bare_table(found))
        return
    _check_no_bare(
        {
            "--noise-multiplier": noise_multiplier,
            "--delta": delta,
            "--sampling": sampling,
            "--adjacency": adjacency,
            "--epsilon": epsilon,
            "--sampling-rate": None if sampling_rate == 1 else sampling_rate,
            "--rounds": None if rounds == 1 else rounds,
            "--accountant": None if accountant == "auto" else accountant,
        }
    )
    from airfl.config import load_settings
    from airfl.report.figures import check_new_figures
    from airfl.report.privacy import FILES, plot_privacy, privacy_table

    settings = load_settings(config, overrides or [])
    if plot:
        check_new_figures(plot, FILES)

    from airfl.calculator import privacy_of

    of_run = privacy_of(settings, data_dir)
    files = plot_privacy(of_run, plot) if plot else []
    if as_json:
        typer.echo(to_json(of_run.figures()))
    else:
        print_table(privacy_table(of_run))
        say(of_run.verdict())
    if files:
        say("written: " + ", ".join(str(file) for file in files))


def _check_no_bare(options: dict[str, Any]) -> None:
    """With a CONFIG its settings are what counts."""
    keys = {
        "--noise-multiplier": "scheme.noise_multiplier",
        "--delta": "privacy.delta",
        "--sampling": "selection.kind",
        "--epsilon": "privacy.epsilon",
        "--sampling-rate": "run.selected",
        "--rounds": "run.rounds",
        "--accountant": "privacy.accountant",
    }
    for name, value in options.items():
        if value is not None:
            instead = f"give {keys[name]}=... instead" if name in keys else "leave it out"
            raise UserError(f"{name}: is for bare numbers; with a CONFIG {instead}")
