"""Drawing the papers' figures in IEEE's style: legends, scales, and how many lines are distinct."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.result import Results, plain
from airfl.errors import UserError
from airfl.report.legend import legend_layout
from airfl.runtime.notebook.style import DOTS_PER_INCH, styled
from airfl.runtime.text import in_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_HEIGHT = 2.1
FEW_DECADES = 100.0
LINES, FACETS = 10, 12
"""Largest number of distinct lines in a panel, and of panels below one another."""
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")
LEGEND_LINE = 0.15  # inches


def render(draw: Callable[[Figure], None], width: float, suffixes: Sequence[str]) -> list[bytes]:
    """Draw a figure, whose height `draw` may change, and return the contents of its files with these suffixes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with styled("ieee"):
        figure = Figure(figsize=(width, PANEL_HEIGHT))
        FigureCanvasAgg(figure)
        draw(figure)
        return [_saved(figure, suffix) for suffix in suffixes]


class TooManyLinesError(UserError):
    """More lines than are distinct in a panel; `count` is their number."""

    def __init__(self, count: int, message: str) -> None:
        super().__init__(message)
        self.count = count


def check_lines(count: int, results: Results) -> None:
    """Raise TooManyLinesError for more lines than are distinct in a panel."""
    if count > LINES:
        swept = [key for key in results.axes if len({plain(run.values.get(key)) for run in results.runs}) > 1]
        example = f"--where {swept[-1]}={plain(results.runs[0].values.get(swept[-1]))}" if swept else "fewer folders"
        raise TooManyLinesError(
            count,
            f"{count} lines are too many for at most {FACETS} panels of {LINES} lines each; select some of the runs, "
            f"for instance with {example}",
        )


def legend(figure: Figure, axis: Axes) -> None:
    """Draw the legend of this panel above all panels, in as many columns as fit."""
    handles, labels = axis.get_legend_handles_labels()
    fit = legend_layout(labels, figure.get_figwidth())
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * fit.lines)
    figure.legend(handles, fit.labels, loc="outside upper center", ncols=fit.columns)


def text(label: str) -> str:
    """Escape a label, so that matplotlib draws it literally."""
    return in_figure(label)


def set_scale(axis: Axes, values: Sequence[float], which: str) -> None:
    """Make the axis "x" or "y" logarithmic, with a range of these positive values and a margin."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    lowest, highest = min(values), max(values)
    margin = (highest / lowest) ** 0.06 if highest > lowest else 1.5
    lowest, highest = lowest / margin, highest * margin
    scaled = axis.xaxis if which == "x" else axis.yaxis
    (axis.set_xscale if which == "x" else axis.set_yscale)("log")
    (axis.set_xlim if which == "x" else axis.set_ylim)(lowest, highest)
    # Over few decades 2 and 5 are labelled, too, so that there are at least two labels.
    scaled.set_major_locator(LogLocator(subs=(1, 2, 5) if highest / lowest < FEW_DECADES else (1,), numticks=8))
    scaled.set_minor_formatter(NullFormatter())
    if lowest >= 1e-3 and highest < 1e5:
        scaled.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _saved(figure: Figure, suffix: str) -> bytes:
    file = io.BytesIO()
    metadata: dict[str, Any] = {"CreationDate": None} if suffix == ".pdf" else {}
    figure.savefig(file, format=suffix.removeprefix("."), dpi=DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()
