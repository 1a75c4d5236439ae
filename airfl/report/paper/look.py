"""How the papers' figures look: IEEE's widths, fonts that stay text, lines that are told apart in grey."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.errors import UserError
from airfl.report.figures import COLOURS, STYLES
from airfl.results.collect import Results, plain
from airfl.shown import in_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.5, 7.16
"""Inches: one column, both."""
PANEL_HEIGHT = 2.1
DOTS_PER_INCH = 300
FEW_DECADES = 100.0
LINES = 10
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")
# STIX comes with matplotlib and looks like Times; fonttype 42 is TrueType, as IEEE's checks want.
LOOK: dict[str, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.unicode_minus": True,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.2,
    "legend.borderaxespad": 0.2,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "savefig.facecolor": "white",
}
HANDLE, BETWEEN = 0.38, 0.14  # inches in a legend: before a text, between columns


def render(draw: Callable[[Figure], None], width: float, suffixes: Sequence[str]) -> list[bytes]:
    """A figure as the contents of files of these kinds; `draw` may change its height."""
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Whatever the user's own matplotlibrc says: equal runs give equal files.
    with matplotlib.style.context(LOOK, after_reset=True):
        figure = Figure(figsize=(width, PANEL_HEIGHT))
        FigureCanvasAgg(figure)
        draw(figure)
        return [_saved(figure, suffix) for suffix in suffixes]


def look(number: int) -> dict[str, Any]:
    """Colour, style and marker of line `number`."""
    shifted = number + number // len(COLOURS)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": STYLES[shifted % len(STYLES)],
        "marker": MARKERS[shifted % len(MARKERS)],
    }


def check_lines(count: int, results: Results) -> None:
    """UserError for more lines than can be told apart."""
    if count > LINES:
        swept = [key for key in results.axes if len({plain(run.values.get(key)) for run in results.runs}) > 1]
        some = f"--where {swept[-1]}={plain(results.runs[0].values.get(swept[-1]))}" if swept else "fewer folders"
        raise UserError(
            f"{count} lines are too many, {LINES} are told apart; draw some of the runs, for instance {some}"
        )


def legend(figure: Figure, axis: Axes) -> None:
    """The legend of this panel above all panels, in as many columns as there is room for."""
    handles, labels = axis.get_legend_handles_labels()
    lines = -(-len(labels) // _columns(labels, figure.get_figwidth()))
    figure.set_figheight(figure.get_figheight() + 0.15 * lines)
    figure.legend(handles, labels, loc="outside upper center", ncols=-(-len(labels) // lines))


def _columns(labels: Sequence[str], room: float) -> int:
    """The most that fit into so many inches; matplotlib fills one after the other."""
    for columns in range(len(labels), 1, -1):
        widths = [max(map(_width, part)) for part in np.array_split(labels, columns)]
        if sum(widths) + columns * HANDLE + (columns - 1) * BETWEEN <= room:
            return columns
    return 1


def _width(label: str) -> float:
    """Of a label in a legend, in inches."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    points = FontProperties(family=rcParams["font.family"], size=rcParams["legend.fontsize"])
    return float(TextPath((0, 0), label, prop=points).get_extents().x1) / 72


def text(label: str) -> str:
    """A label as it stands."""
    return in_figure(label)


def set_scale(axis: Axes, values: Sequence[float], which: str) -> None:
    """Axis "x" or "y" logarithmic over these positive values and a margin: bands may leave the frame, lines not."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    lowest, highest = min(values), max(values)
    margin = (highest / lowest) ** 0.06 if highest > lowest else 1.5
    lowest, highest = lowest / margin, highest * margin
    one = axis.xaxis if which == "x" else axis.yaxis
    (axis.set_xscale if which == "x" else axis.set_yscale)("log")
    (axis.set_xlim if which == "x" else axis.set_ylim)(lowest, highest)
    # Over a decade or two 2 and 5 are named too, so that there are two numbers at least.
    one.set_major_locator(LogLocator(subs=(1, 2, 5) if highest / lowest < FEW_DECADES else (1,), numticks=8))
    one.set_minor_formatter(NullFormatter())
    if lowest >= 1e-3 and highest < 1e5:
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _saved(figure: Figure, suffix: str) -> bytes:
    file = io.BytesIO()
    metadata: dict[str, Any] = {"CreationDate": None} if suffix == ".pdf" else {}
    figure.savefig(file, format=suffix.removeprefix("."), dpi=DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()
