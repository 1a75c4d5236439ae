"""The privacy of a run for people: its table, and the figure of claimed against true."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.report.figures import COLOURS, STYLES, check_new_figures, lighten, write_figure
from airfl.report.numbers import figure
from airfl.report.table import BETA_TELLS
from airfl.report.terminal import AT_BOUND, two_columns
from airfl.report.verdict import ADJACENCIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from airfl.calculator import RunPrivacy

FILES = ("privacy.png", "privacy.pdf")
# In the order of the legend.
LINES = {
    "epsilon_rdp": "the run by RDP",
    "epsilon": "the run, proven",
    "epsilon_at_least": "the run, at least: a pair of neighbours pays it",
    "epsilon_as_poisson": "the run, accounted as Poisson sampling",
    "epsilon_paper": "claimed by the paper",
}
SAMPLINGS = {
    "without_replacement": "a sample of fixed size",
    "poisson": "Poisson sampling",
    "by_channel": "a choice by the channel",
}
OBSERVERS = {"third_party": "a third party who sees what is broadcast", "server": "the server"}


def privacy_table(privacy: RunPrivacy) -> Table:
    """Two columns, what and how much."""
    about = privacy.statement
    title = f"{privacy.scheme}: {privacy.rounds:,} rounds, {privacy.selected:,} of {privacy.devices:,} devices"
    caption = (
        f"{about.level} level, {ADJACENCIES[about.adjacency]}, {SAMPLINGS[about.sampling]}"
        f"{', which what devices keep may tell' if about.remembered else ''}; "
        f"observer: {OBSERVERS[about.observer]}{_of_beta(privacy)}; delta {about.delta:g}; "
        f"accountant: {privacy.accountant}"
    )
    whose = "device" if about.level == "client" else "record"
    claimed = "the run" if privacy.claim_scope == "run" else "a round, largest"
    lines = [
        (f"noise over a {whose}'s largest contribution, least", figure(privacy.noise_multiplier_min)),
        ("the same, median over rounds", figure(privacy.noise_multiplier_median)),
        (f"ε claimed for {claimed}", figure(privacy.epsilon_paper)),
        ("ε in the paper's tables, by another formula", figure(privacy.epsilon_paper_tables)),
        (f"ε of the worst round, {'at most' if about.remembered else 'exact'}", figure(privacy.epsilon_round)),
        ("ε of the run, proven", figure(privacy.epsilon)),
        ("ε of the run at least, for a pair of neighbours", figure(privacy.epsilon_at_least)),
        ("ε of the run by RDP", figure(privacy.epsilon_rdp)),
        ("ε of the run accounted as Poisson", figure(privacy.epsilon_as_poisson)),
        *_what_would_do(privacy),
    ]
    return two_columns(title, AT_BOUND, [line for line in lines if line[1] != "-"], caption)


def _of_beta(privacy: RunPrivacy) -> str:
    text = BETA_TELLS.get(privacy.beta_tells)
    return f"; {text}" if text else ""


def _what_would_do(privacy: RunPrivacy) -> list[tuple[str, str]]:
    found = privacy.would_do
    if found is None:
        return []
    aim = f"to end at ε = {privacy.wanted:g}: "
    lines = [(f"{aim}noise over the largest contribution", figure(found.noise_multiplier or math.nan))]
    if not math.isnan(privacy.alignment_coefficient):
        lines.append((f"{aim}alignment coefficient β", figure(privacy.alignment_coefficient)))
        power = "-" if found.power_db is None else f"{-found.power_db + 0.0:+.1f} dB"
        lines.append((f"{aim}received power of an update", power))
    lines.append((f"{aim}rounds T, at most", _count(found.rounds)))
    if privacy.statement.hidden:
        lines.append((f"{aim}devices N, at least", _count(found.devices)))
        lines.append((f"{aim}selected r, at most", _count(found.selected)))
    return lines


def _count(value: int | None) -> str:
    return "none would do" if value is None else f"{value:,}"


def bare_table(figures: dict[str, Any]) -> Table:
    """Of bare numbers."""
    names = {
        "noise_multiplier": "noise multiplier, σ/C",
        "epsilon_round": "ε of one round, exact",
        "epsilon": f"ε of {figures['rounds']:,} rounds",
        "epsilon_lower": "a proven lower bound",
        "epsilon_at_least": "ε at least, for a pair of neighbours",
        "epsilon_as_poisson": "ε accounted as Poisson",
    }
    sampling = SAMPLINGS.get(figures["sampling"], "no sampling")
    caption = (
        f"q = {figures['sampling_rate']:g}, {sampling}, {ADJACENCIES[figures['adjacency']]}; delta "
        f"{figures['delta']:g}; accountant: {figures['accountant']}"
    )
    lines = [(text, figure(figures[key])) for key, text in names.items() if key in figures]
    return two_columns("bare numbers", "", lines, caption)


def plot_privacy(privacy: RunPrivacy, out: Path) -> list[Path]:
    """Claimed against true over the rounds; writes out/privacy.png and out/privacy.pdf, which must not be there."""
    check_new_figures(out, FILES)
    return write_figure(lambda drawing: draw_privacy(drawing, privacy), [out / name for name in FILES], (7.2, 4.6))


def draw_privacy(drawing: Figure, privacy: RunPrivacy) -> None:
    """Epsilon against rounds, both logarithmic."""
    from airfl.calculator import curves

    found = curves(privacy)
    axis = drawing.subplots()
    for number, (name, label) in enumerate(LINES.items()):
        values = found.figures.get(name)
        if values is None or not np.isfinite(values).any():
            continue
        if name == "epsilon_paper":
            whose = "largest round so far" if privacy.claim_scope == "round" else "for the run"
            label = f"{label}, {whose}"
        axis.plot(found.rounds, values, label=label, color=COLOURS[number], linestyle=STYLES[number])
    if math.isfinite(privacy.epsilon_round) and privacy.epsilon_round > 0:
        look: dict[str, Any] = {"color": COLOURS[6], "linewidth": 0.8, "linestyle": STYLES[6]}
        axis.axhline(privacy.epsilon_round, label="the worst round alone, exact", **look)
    axis.set(xscale="log", xlabel="rounds", ylabel="ε", yscale="log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(lambda value, place: f"{value:,g}")
        side.set_minor_formatter(lambda value, place: "")
    lighten(axis)
    axis.legend(frameon=False, fontsize="small")
    about = privacy.statement
    drawing.suptitle(
        f"{privacy.scheme}: {privacy.selected:,} of {privacy.devices:,} devices, δ = {about.delta:g}, "
        f"{about.level} level",
        fontsize="medium",
    )
