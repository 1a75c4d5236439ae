"""The command `airfl theory`, which computes the convergence bound of a scheme's paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from airfl.cli.app import AsJson, Config, DataDir, Overrides, Plugins, print_table, say
from airfl.runtime.numbers import figure, scientific

if TYPE_CHECKING:
    from airfl.theory.of_run import Theory

POINTS = 10
"""Most points of the measured curve in the table; --json has all."""
LONG = 1e7
"""Number from which on the notation is scientific."""
CONSTANTS = {
    "smoothness": "smoothness L",
    "gradient_bound": "gradient bound G",
    "coordinate_bound": "largest coordinate of a sample's gradient, G/√d",
    "dissimilarity": "dissimilarity of the devices κ²",
    "variance": "variance of a mini-batch gradient ζ²",
    "kept_share": "share of ‖∇f‖² on the selected coordinates q",
    "initial_shift": "initial shift, mean of ‖∇f_i(θ⁰)‖²",
    "initial_gap": "initial gap f(θ⁰) − f_inf",
}


def theory(
    config: Config,
    overrides: Overrides = None,
    *,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="a finished run of CONFIG: its noise and gradient norms")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    plugins: Plugins = False,
) -> None:
    """Convergence bound of the scheme's paper, as numbers."""
    from airfl.config import load_settings, to_json
    from airfl.theory.covered import check_covered
    from airfl.theory.of_run import theory_of

    settings = load_settings(config, overrides or [])
    check_covered(settings)
    result = theory_of(settings, run, data_dir)
    if as_json:
        typer.echo(to_json(result.figures()))
        return
    from airfl.report.terminal import two_columns

    title = f"{result.scheme}: {result.bound.theorem}"
    print_table(two_columns(title, "bound on the mean of ‖∇f(θ)‖² over the rounds", _lines(result)))
    for message in _messages(result):
        say(message)


def _lines(result: Theory) -> Iterator[tuple[str, str]]:
    """Yield the lines of the table: quantity and value, of terms as printed and corrected."""
    bound, constants = result.bound, result.constants
    proven = not math.isnan(bound.corrected)

    def both(printed: str, corrected: str) -> str:
        return f"{printed}, corrected {corrected}" if proven and corrected else printed

    yield "as printed", _bound(bound.printed)
    yield "corrected", _bound(bound.corrected) if proven else f"none: {bound.unproven}"
    for term in bound.terms:
        parts = (_term(term.printed, bound.printed), _term(term.corrected, bound.corrected))
        if any(parts):
            yield f"  {term.name}", both(parts[0] or "none", parts[1] or "none")
    if result.measured is not None:
        yield "measured", _number(result.measured.mean)
    preferred = bound.preferred_ratio
    yield "preferred ratio p", both(_ratio(preferred.printed), _ratio(preferred.corrected))
    yield "  how", preferred.why
    for name, value in bound.rest.items():
        yield f"  {name}", _ratio(value)
    allowed = bound.largest_step_corrected
    corrected = "" if math.isnan(allowed) else _number(allowed)
    yield "largest learning rate allowed", both(_number(bound.largest_step), corrected)
    for one in bound.conditions:
        of = "" if one.of == "both" else f" ({one.of})"
        yield f"condition: {one.name}{of}", f"{one.value}; {one.limit}: {'holds' if one.holds else 'does not hold'}"
    for name, label in CONSTANTS.items():
        value = getattr(constants, name)
        if not math.isnan(value):
            yield label, _number(value)
        if constants.how.get(name):
            yield "  how", constants.how[name]
    yield from _corollary(result)
    yield from _curve(result)


def _bound(value: float) -> str:
    return _number(value) if math.isfinite(value) else "none: it is infinite at these settings"


def _term(value: float, bound: float) -> str:
    """Format a term of a bound, "" if there is no such bound."""
    return _number(value) if math.isfinite(bound) else ""


def _ratio(value: float | None) -> str:
    return "none" if value is None or math.isnan(value) else _number(value)


def _number(value: float) -> str:
    """Format a number, one of eight digits or more in scientific notation."""
    return scientific(value) if abs(value) >= LONG else figure(value)


def _corollary(result: Theory) -> Iterator[tuple[str, str]]:
    """Yield what the corollary sets for the run's epsilon and delta."""
    one = result.corollary
    if one is None:
        return
    allowed = "" if one.step_allowed else ", which theorem 3 does not allow"
    yield f"{one.name}, for the run's ε and δ: learning rate", f"{_number(one.step)}{allowed}"
    yield "  samples of a mini-batch", f"{one.batch:,}"
    yield "  rounds", f"{one.rounds:,}"
    yield "  noise σ_p", _number(one.noise_std)
    yield "  bound with all constants", _number(one.bound)
    yield "  what stands in its O(.)", _number(one.order)


def _curve(result: Theory) -> Iterator[tuple[str, str]]:
    """Yield some points of the measured curve, both ends among them."""
    measured = result.measured
    if measured is None:
        return
    last = len(measured.rounds) - 1
    shown = sorted({round(index * last / (POINTS - 1)) for index in range(POINTS)})
    for index in shown:
        yield f"measured ‖∇f‖² after {measured.rounds[index]} rounds", _number(measured.gradient_norm_squared[index])


def _messages(result: Theory) -> Iterator[str]:
    """Yield what does not hold, a line each."""
    bound = result.bound
    printed, corrected = bound.holds("printed"), bound.holds("corrected")
    if math.isnan(bound.corrected):
        if not printed:
            yield "the run does not meet the conditions of the printed bound, which says nothing of the run"
    elif not printed and not corrected:
        yield (
            "the run meets the conditions of neither bound, so that neither the printed nor the corrected one says "
            "anything of the run"
        )
    elif not printed:
        yield (
            "the run meets the conditions of the corrected bound, but not those of the printed one, which says "
            "nothing of the run"
        )
    elif not corrected:
        yield (
            "the run meets the conditions of the printed bound, but not those of the corrected one, which says "
            "nothing of the run"
        )
    if result.constants.how:
        q = "" if math.isnan(result.constants.kept_share) else " (q from above)"
        yield f"the constants are estimated from below{q}, so that a bound computed with them can be too low"
    if result.constants.initial_gradient <= bound.printed < math.inf:
        start = f"{result.constants.initial_gradient:.4g}"
        yield f"the bound is above ‖∇f(θ⁰)‖² = {start}, from where the run starts: it is vacuous"
    for error in bound.errors:
        yield f"not as printed: {error}"
    yield "see docs/theory.md for what was corrected, and why"
