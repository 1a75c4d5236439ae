"""Training loss and test accuracy over rounds or over a cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.analysis.results.result import Results
from airfl.report.paper.lines import FINAL, LABELS, Line, curve, draw_panel, level, off_scale, scale_costs
from airfl.report.paper.look import check_lines, legend
from airfl.report.paper.names import group_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(figure: Figure, results: Results, cost: str) -> None:
    """Draw two panels, loss and accuracy over a cost of `lines.LABELS`: rounds or resource elements."""
    check_lines(len(results.groups), results)
    axes = figure.subplots(1, 2)
    for axis, y in zip(axes, ("train_loss", "test_accuracy"), strict=True):
        lines = learning_lines(results, cost, y)
        draw_panel(axis, lines, LABELS[cost], LABELS[y])
        if cost != "rounds":
            scale_costs(axis, lines)
    legend(figure, axes[0])


def learning_lines(results: Results, cost: str, y: str) -> list[Line]:
    """Return a line per group.

    Next to other links, the ideal link, which costs orders of magnitude more, is a horizontal line at its final value.
    """
    names = group_names(results.groups, results.axes)
    beyond = off_scale(results.groups) if cost != "rounds" else [False] * len(names)
    return [
        level(name + FINAL, group, y) if off else curve(name, group, cost, y)
        for name, group, off in zip(names, results.groups, beyond, strict=True)
    ]
