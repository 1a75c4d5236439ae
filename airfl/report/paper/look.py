"""How the papers' figures look: IEEE's widths, fonts that stay text, lines that are told apart in grey."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airfl.errors import UserError
from airfl.report.legend import fitted
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
LINES, FACETS = 10, 12
"""Told apart in a panel; drawn below one another where there are more."""
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
LEGEND_LINE = 0.15  # inches


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


class TooManyLinesError(UserError):
    """More lines than are told apart in a panel: how many."""

    def __init__(self, count: int, message: str) -> None:
        super().__init__(message)
        self.count = count


def check_lines(count: int, results: Results) -> None:
    """TooManyLinesError for more lines than can be told apart."""
    if count > LINES:
        swept = [key for key in results.axes if len({plain(run.values.get(key)) for run in results.runs}) > 1]
        some = f"--where {swept[-1]}={plain(results.runs[0].values.get(swept[-1]))}" if swept else "fewer folders"
        raise TooManyLinesError(
            count,
            f"{count} lines are too many: {LINES} are told apart in a panel, and {FACETS} panels drawn at most; draw "
            f"some of the runs, for instance {some}",
        )


def legend(figure: Figure, axis: Axes) -> None:
    """The legend of this panel above all panels, in as many columns as there is room for."""
    handles, labels = axis.get_legend_handles_labels()
    fit = fitted(labels, figure.get_figwidth())
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * fit.lines)
    figure.legend(handles, fit.labels, loc="outside upper center", ncols=fit.columns)


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
