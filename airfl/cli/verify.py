"""The command `airfl verify`, which repeats the runs of a bundle and compares them: exit code 1 if one differs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from airfl.cli.app import AsJson, DataDir, Device, print_list, say

if TYPE_CHECKING:
    from airfl.exports.verify import Verdict

SHOWN = 4
"""Most differences of the environment that a line names."""


def verify(
    bundle: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE", help="file that airfl export --to bundle has written", show_default=False),
    ],
    *,
    run: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="this run of the bundle only; may be repeated")
    ] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Repeat the runs of a bundle, and compare them."""
    from airfl.exports.verify import as_json as to_json
    from airfl.exports.verify import check_reproduced
    from airfl.exports.verify import verify as repeat

    verdicts = repeat(bundle, run or [], device, data_dir, lambda verdict: say(_line(verdict)))
    if as_json:
        typer.echo(to_json(verdicts))
    elif any(verdict.differing for verdict in verdicts):
        print_list([_row(verdict, place) for verdict in verdicts for place in range(len(verdict.differing))], False)
    check_reproduced(bundle, verdicts)


def _line(verdict: Verdict) -> str:
    """Return the line on a run: how it compares, and how the environment differs from that of the bundle."""
    names = list(verdict.environment)
    pairs = ((name, *map(_short, verdict.environment[name])) for name in names[:SHOWN])
    listed = [f"{name} ({there} in the bundle, {here} here)" for name, there, here in pairs]
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    other = (
        f"; the environment differs: {', '.join(listed + more)}" if names else "; versions and processor are the same"
    )
    equal = verdict.variables - len(verdict.differing)
    agreeing = ""
    if verdict.agreeing_rounds:
        rounds = "round is" if verdict.agreeing_rounds == 1 else f"{verdict.agreeing_rounds} rounds are"
        agreeing = (
            f"; the first {rounds} within the tolerances, and training may have amplified rounding in later ones: only "
            "a machine with the versions and the processor of the bundle can tell"
        )
    line = f"{verdict.run}: {verdict.outcome}, {equal} of {verdict.variables} variables equal bit for bit"
    return f"{line}{other}{agreeing}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _row(verdict: Verdict, place: int) -> dict[str, str]:
    """Return a row of the table: a variable that is not equal bit for bit."""
    one = verdict.differing[place]
    off = "by digest only" if math.isnan(one.difference) else f"{one.difference:.2g}"
    return {"run": verdict.run, "variable": one.variable, "tolerance": str(one.tolerance), "difference/tolerance": off}
