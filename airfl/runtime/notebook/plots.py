"""Lines on Matplotlib axes or in a Plotly figure, with the colours of all figures of airfl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.errors import UserError, escaped
from airfl.runtime.notebook.style import SHEETS, Style, check_style, new_axes, styled
from airfl.runtime.text import in_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from plotly.graph_objects import Figure

# Okabe and Ito's palette, which is safe for colour-blind readers; line styles distinguish the lines in greyscale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot", "5px,2px")
"""The line styles in Plotly."""


@dataclass(frozen=True)
class Line:
    """A line of a plot.

    Attributes:
        x: Positions, numbers or names, [points].
        y: Values, [points].
        label: Its label in the legend, "" for none.
        spread: Half the length of the error bars, [points]; None for no error bars, nan for none at a point.
    """

    x: Sequence[Any] | NDArray[Any]
    y: NDArray[np.float64]
    label: str = ""
    spread: NDArray[np.float64] | None = None


def on_axes(lines: Sequence[Line], x: str, y: str, ax: Axes | None = None, style: Style | None = None) -> Axes:
    """Draw lines on Matplotlib axes.

    Args:
        lines: The lines.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        ax: The axes to draw on; None for those of a new figure, which pyplot shows in a notebook.
        style: "ieee" for a new figure for IEEE papers, which `savefig` saves with its fonts embedded; None for the
            current style of Matplotlib.

    Returns:
        The axes.

    Raises UserError for an unknown style, and for a style of given axes, whose figure has one already.
    """
    check_style(style)
    if ax is not None and style is not None:
        raise UserError(
            "style: the figure of the given axes has a style already; leave ax out, or create the figure within "
            f'plt.style.context("{SHEETS[style]}")'
        )
    ax = new_axes(style) if ax is None else ax
    with styled(style):
        _draw(ax, lines, x, y)
    return ax


def _draw(ax: Axes, lines: Sequence[Line], x: str, y: str) -> None:
    from matplotlib import rcParams, rcParamsDefault

    for number, line in enumerate(lines):
        look: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": STYLES[number % len(STYLES)],
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 4 if rcParams["lines.markersize"] == rcParamsDefault["lines.markersize"] else None,
            "label": in_figure(line.label) if line.label else None,
        }
        if line.spread is None:
            ax.plot(line.x, line.y, **look)
        else:
            ax.errorbar(line.x, line.y, yerr=np.nan_to_num(line.spread), capsize=2, **look)
    ax.set(xlabel=in_figure(x), ylabel=in_figure(y))
    if any(line.label for line in lines):
        ax.legend(fontsize="small" if rcParams["legend.fontsize"] == "medium" else None)


def in_plotly(lines: Sequence[Line], x: str, y: str) -> Figure:
    """Return lines as an interactive Plotly figure; arguments as in `on_axes`."""
    from plotly import graph_objects as plotly

    figure = plotly.Figure()
    for number, line in enumerate(lines):
        spread = None if line.spread is None else {"type": "data", "array": np.nan_to_num(line.spread)}
        figure.add_trace(
            plotly.Scatter(
                x=list(line.x),
                y=line.y,
                name=escape(escaped(line.label)),
                error_y=spread,
                mode="lines+markers",
                line={"color": COLOURS[number % len(COLOURS)], "dash": DASHES[number % len(DASHES)]},
            )
        )
    shown = any(line.label for line in lines)
    figure.update_layout(xaxis_title=escape(x), yaxis_title=escape(y), showlegend=shown)
    return figure
