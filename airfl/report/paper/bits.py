"""Test accuracy over the bits that devices have sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airfl.analysis.results.result import Results
from airfl.report.paper.lines import LABELS, curve, draw_panel, scale_costs
from airfl.report.paper.look import check_lines, legend
from airfl.report.paper.names import group_names, missing_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(figure: Figure, results: Results) -> None:
    """Draw one panel with the runs that send bits. Raises UserError if none does."""
    sending = sending_bits(results)
    check_lines(len(sending.groups), sending)
    names = group_names(sending.groups, sending.axes)
    lines = [
        curve(name, group, "uplink_bits", "test_accuracy") for name, group in zip(names, sending.groups, strict=True)
    ]
    axis = figure.subplots()
    draw_panel(axis, lines, LABELS["uplink_bits"], LABELS["test_accuracy"])
    scale_costs(axis, lines)
    legend(figure, axis)


def sending_bits(results: Results) -> Results:
    """Return the runs that send bits, including those over the ideal link. Raises UserError if no link is digital."""
    runs = tuple(run for run in results.runs if run.digest.summary.uplink_bits > 0)
    if all(run.digest.link == "ideal" for run in runs):
        raise missing_data("runs over a digital link", results, "use a scheme that sends bits (airfl schemes)")
    return replace(results, runs=runs)
