"""The command `airfl privacy`, which computes the epsilon of a run without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from airfl.cli import completion
from airfl.cli.app import AsJson, DataDir, MaybeConfig, Overrides, Plugins, Styled, check_style_of, print_table, say
from airfl.errors import UserError

if TYPE_CHECKING:
    from airfl.config import Settings

Sampling = Literal["poisson", "without_replacement", "none"]
Adjacency = Literal["add_remove", "replace_one"]

NO_CONFIG = "without CONFIG"


def privacy(
    config: MaybeConfig = None,
    overrides: Overrides = None,
    *,
    noise_multiplier: Annotated[
        float | None, typer.Option(metavar="X", help=f"sigma over C, {NO_CONFIG}; or give --epsilon")
    ] = None,
    sampling_rate: Annotated[float, typer.Option(metavar="Q", help="sampling rate q = r/N")] = 1.0,
    rounds: Annotated[int, typer.Option(metavar="T", help="number of rounds")] = 1,
    delta: Annotated[float | None, typer.Option(metavar="X", help="target delta")] = None,
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
        float | None, typer.Option(metavar="X", help="find the smallest noise multiplier for this epsilon")
    ] = None,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="output folder for privacy.png and privacy.pdf")
    ] = None,
    style: Styled = None,
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Claimed and accounted epsilon, of CONFIG or of numbers."""
    from airfl.config import to_json

    check_style_of(plot, style)
    if config is None:
        from airfl.analysis.dp_calculator import AccountedRun, accounted_figures
        from airfl.report.privacy import bare_table

        if overrides or plot:
            raise UserError("privacy: --plot and section.key=value need CONFIG; give one, or leave them out")
        numbers = AccountedRun(noise_multiplier, sampling_rate, rounds, delta, sampling, adjacency, accountant, epsilon)
        figures = accounted_figures(numbers)
        if as_json:
            typer.echo(to_json(figures))
        else:
            print_table(bare_table(figures))
        return
    from airfl.config import load_settings

    settings = load_settings(config, overrides or [])
    _check_not_given(
        {
            "--noise-multiplier": noise_multiplier,
            "--delta": delta,
            "--sampling": sampling,
            "--adjacency": adjacency,
            "--epsilon": epsilon,
            "--sampling-rate": None if sampling_rate == 1 else sampling_rate,
            "--rounds": None if rounds == 1 else rounds,
            "--accountant": None if accountant == "auto" else accountant,
        },
        settings,
    )
    from airfl.report.figures import check_new_figures
    from airfl.report.privacy import FILES, plot_privacy, privacy_table

    if plot:
        check_new_figures(plot, FILES)

    from airfl.analysis.calculator import privacy_of

    result = privacy_of(settings, data_dir)
    files = plot_privacy(result, plot, style) if plot else []
    if as_json:
        typer.echo(to_json(result.figures()))
    else:
        print_table(privacy_table(result))
        say(result.verdict())
    if files:
        say("written: " + ", ".join(str(file) for file in files))
    elif plot:
        say("left out: privacy.png: no ε is finite")


def _check_not_given(options: dict[str, Any], settings: Settings) -> None:
    """Raise UserError for an option that CONFIG replaces by a setting."""
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
            instead = f"give {keys[name]}=... instead"
            if name == "--noise-multiplier" and not hasattr(settings.scheme, "noise_multiplier"):
                instead = f"leave it out, as scheme {settings.scheme.name!r} has no such parameter"
            raise UserError(f"{name}: cannot be combined with CONFIG; {instead}")
