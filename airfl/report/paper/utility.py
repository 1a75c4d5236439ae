"""Squared gradient norm of the objective, and test accuracy, over rounds and bits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from airfl.analysis.results.result import Group, Result, Results
from airfl.report.paper.lines import LABELS, curve, draw_panel, scale_costs
from airfl.report.paper.look import PANEL_HEIGHT, check_lines, legend
from airfl.report.paper.names import group_names, missing_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = ("gradient_norm_squared", "test_accuracy")


def draw(figure: Figure, results: Results) -> None:
    """Draw the gradient norm (top) and accuracy (bottom), over rounds (left) and over bits of digital links (right).

    Raises UserError if no run has recorded the gradient norm.
    """
    measured = with_gradients(results)
    check_lines(len(measured.groups), measured)
    figure.set_figheight(1.8 * PANEL_HEIGHT)
    axes = figure.subplots(2, 2, sharex="col", sharey="row")
    for row, y in enumerate(ROWS):
        _draw_panel(axes[row, 0], measured, "rounds", y)
        _draw_panel(axes[row, 1], measured, "uplink_bits", y)
        axes[row, 1].set_ylabel("")
    for axis in axes[0]:
        axis.set_xlabel("")
    legend(figure, axes[0, 0])


def with_gradients(results: Results) -> Results:
    """Return the runs that have recorded the gradient norm. Raises UserError if none has."""
    runs = tuple(run for run in results.runs if _measured(run))
    if not runs:
        raise missing_data("runs with trace.gradient_norm = true", results, "repeat them with trace.gradient_norm=true")
    return replace(results, runs=runs)


def _draw_panel(axis: Axes, results: Results, x: str, y: str) -> None:
    lines = []
    for name, group in zip(group_names(results.groups, results.axes), results.groups, strict=True):
        line = curve(name, group, x, y)
        # Groups that send no bits become invisible lines, so that styles are the same in all panels.
        lines.append(line if x == "rounds" or _sends(group) else replace(line, mean=np.full_like(line.mean, np.nan)))
    draw_panel(axis, lines, LABELS[x], LABELS[y])
    if x != "rounds":
        scale_costs(axis, [line for line in lines if np.isfinite(line.mean).any()])


def _sends(group: Group) -> bool:
    return group.runs[0].digest.summary.uplink_bits > 0


def _measured(run: Result) -> bool:
    return bool(np.isfinite(run.digest.course["gradient_norm_squared"]).any())
