"""The table of a run's privacy, and the figure of claimed and accounted epsilon."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.privacy.verdict import ADJACENCIES
from airfl.report.figures import COLOURS, MARKERS, STYLES, check_new_figures, lighten, write_figure
from airfl.report.table import BETA_TELLS
from airfl.report.terminal import AT_BOUND, two_columns
from airfl.runtime.notebook.style import PAGE, Style
from airfl.runtime.numbers import counted, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from airfl.analysis.calculator import RunPrivacy

FILES = ("privacy.png", "privacy.pdf")
EXACT = 1e-6
"""Relative difference of bounds up to which a figure is called exact."""
# In the order of the legend.
LINES = {
    "epsilon_rdp": "run, by RDP",
    "epsilon": "run, proven upper bound",
    "epsilon_at_least": "run, lower bound that a pair of neighbours attains",
    "epsilon_as_poisson": "run, accounted as Poisson sampling",
    "epsilon_paper": "claimed by the paper",
}
SAMPLINGS = {
    "without_replacement": "samples of fixed size",
    "poisson": "Poisson sampling",
    "by_channel": "selection by the channel",
}
OBSERVERS = {"third_party": "a third party who observes the broadcasts", "server": "the server"}


def privacy_table(privacy: RunPrivacy) -> Table:
    """Return a table of two columns, quantity and value."""
    guarantee = privacy.statement
    rounds, devices = counted(privacy.rounds, "round"), counted(privacy.devices, "device")
    title = f"{privacy.scheme}: {rounds}, {privacy.selected:,} of {devices}"
    caption = (
        f"{guarantee.level} level, {ADJACENCIES[guarantee.adjacency]}, {SAMPLINGS[guarantee.sampling]}"
        f"{', which the state of devices may reveal' if guarantee.remembered else ''}; "
        f"observer: {OBSERVERS[guarantee.observer]}{_beta_note(privacy)}; delta {guarantee.delta:g}; "
        f"accountant: {privacy.accountant}"
    )
    unit = "device" if guarantee.level == "client" else "record"
    exact = _round_is_exact(privacy)
    claimed = "ε claimed for the run" if privacy.claim_scope == "run" else "largest ε claimed for a round"
    lines = [
        (
            f"noise multiplier (noise over a {unit}'s largest contribution), smallest over rounds",
            figure(privacy.noise_multiplier_min),
        ),
        ("noise multiplier, median over rounds", figure(privacy.noise_multiplier_median)),
        (claimed, figure(privacy.epsilon_paper)),
        ("ε in the paper's tables, by another formula", figure(privacy.epsilon_paper_tables)),
        (f"ε of the worst round, {'exact' if exact else 'at most'}", figure(privacy.epsilon_round)),
        (
            "ε of the worst round, lower bound that a pair of neighbours attains",
            figure(math.nan if exact else privacy.epsilon_round_at_least),
        ),
        ("ε of the run, proven upper bound", figure(privacy.epsilon)),
        ("ε of the run, lower bound that a pair of neighbours attains", figure(privacy.epsilon_at_least)),
        ("ε of the run by RDP", figure(privacy.epsilon_rdp)),
        ("ε of the run accounted as Poisson", figure(privacy.epsilon_as_poisson)),
        *_calibration(privacy),
    ]
    return two_columns(title, AT_BOUND, [line for line in lines if line[1] != "-"], caption)


def _round_is_exact(privacy: RunPrivacy) -> bool:
    return privacy.epsilon_round_at_least >= privacy.epsilon_round * (1 - EXACT)


def _beta_note(privacy: RunPrivacy) -> str:
    text = BETA_TELLS.get(privacy.beta_tells)
    return f"; {text}" if text else ""


def _calibration(privacy: RunPrivacy) -> list[tuple[str, str]]:
    """Return the lines on what would meet the target epsilon."""
    needed = privacy.remedies
    if needed is None:
        return []
    aim = f"for ε = {privacy.wanted:g}: "
    lines = [(f"{aim}noise multiplier", figure(needed.noise_multiplier or math.nan))]
    if not math.isnan(privacy.alignment_coefficient):
        lines.append((f"{aim}alignment coefficient β", figure(privacy.alignment_coefficient)))
        power = "-" if needed.power_db is None else f"{-needed.power_db + 0.0:+.1f} dB"
        lines.append((f"{aim}received power of an update", power))
    lines.append((f"{aim}rounds T, at most", _count(needed.rounds)))
    if privacy.statement.hidden:
        lines.append((f"{aim}devices N, at least", _count(needed.devices)))
        lines.append((f"{aim}selected r, at most", _count(needed.selected)))
    return lines


def _count(value: int | None) -> str:
    return "not attainable" if value is None else f"{value:,}"


def bare_table(figures: dict[str, Any]) -> Table:
    """Return the table of figures computed without a configuration."""
    names = {
        "noise_multiplier": "noise multiplier, σ/C",
        "epsilon_round": "ε of one round, exact",
        "epsilon": f"ε of {counted(figures['rounds'], 'round')}",
        "epsilon_lower": "proven lower bound",
        "epsilon_at_least": "lower bound on ε from a pair of neighbours",
        "epsilon_as_poisson": "ε accounted as Poisson",
    }
    sampling = SAMPLINGS.get(figures["sampling"], "no sampling")
    caption = (
        f"q = {figures['sampling_rate']:g}, {sampling}, {ADJACENCIES[figures['adjacency']]}; delta "
        f"{figures['delta']:g}; accountant: {figures['accountant']}"
    )
    lines = [(text, figure(figures[key])) for key, text in names.items() if key in figures]
    return two_columns("privacy of the given numbers", "", lines, caption)


def plot_privacy(privacy: RunPrivacy, out: Path, style: Style | None = None) -> list[Path]:
    """Write the figure to out/privacy.png and out/privacy.pdf, which must not exist, and return these files.

    Nothing is written if no epsilon is finite.
    """
    check_new_figures(out, FILES)
    if not any(math.isfinite(getattr(privacy, name)) for name in (*LINES, "epsilon_round")):
        return []
    files, size = [out / name for name in FILES], (PAGE, 3.6) if style else (7.2, 4.6)
    return write_figure(lambda drawing: draw_privacy(drawing, privacy), files, size, style)


def draw_privacy(drawing: Figure, privacy: RunPrivacy) -> None:
    """Draw claimed and accounted epsilon over rounds, on logarithmic axes."""
    from airfl.analysis.calculator import curves

    lines = curves(privacy)
    axis = drawing.subplots()
    for number, (name, label) in enumerate(LINES.items()):
        values = lines.figures.get(name)
        if values is None or not np.isfinite(values).any():
            continue
        if name == "epsilon_paper":
            scope = "largest round so far" if privacy.claim_scope == "round" else "for the run"
            label = f"{label}, {scope}"
        style: dict[str, Any] = {"color": COLOURS[number], "linestyle": STYLES[number]}
        if np.isfinite(values).sum() == 1:  # a single point is visible only with a marker
            style["marker"] = MARKERS[number]
        axis.plot(lines.rounds, values, label=label, **style)
    if math.isfinite(privacy.epsilon_round) and privacy.epsilon_round > 0:
        style = {"color": COLOURS[6], "linewidth": 0.8, "linestyle": STYLES[6]}
        label = "worst round, exact" if _round_is_exact(privacy) else "worst round, at most"
        axis.axhline(privacy.epsilon_round, label=label, **style)
    axis.set(xscale="log", xlabel="rounds", ylabel="ε", yscale="log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(lambda value, place: f"{value:,g}")
        side.set_minor_formatter(lambda value, place: "")
    lighten(axis)
    axis.legend(frameon=False, fontsize="small")
    guarantee = privacy.statement
    drawing.suptitle(
        f"{privacy.scheme}: {privacy.selected:,} of {privacy.devices:,} devices, δ = {guarantee.delta:g}, "
        f"{guarantee.level} level",
        fontsize="medium",
    )
