"""Learning curves and costs from traces, as PNG and PDF."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.analysis.results.averages import FEWEST, NOT_NEGATIVE, PERCENT, Bounds, average
from airfl.errors import UserError
from airfl.report.legend import legend_layout
from airfl.report.table import mark_of
from airfl.runtime.notebook.plots import COLOURS as COLOURS
from airfl.runtime.notebook.plots import MARKERS as MARKERS
from airfl.runtime.notebook.plots import STYLES as STYLES
from airfl.runtime.notebook.style import DOTS_PER_INCH, PAGE, Style, styled
from airfl.runtime.text import in_figure
from airfl.storage.output_files import check_can_be_folder, replacing
from airfl.storage.trace import open_trace

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]
FILES = ("learning.png", "learning.pdf")
MARK = "airfl figure"
"""Written to the metadata of the files, as the software that created them, to recognise figures of airfl."""
LEARNING = ("test_accuracy", "test_loss", "energy_j", "resource_elements")
PRIVACY = ("epsilon_paper", "epsilon_round", "epsilon", "epsilon_as_poisson", "epsilon_at_least")
# Lines of learning.png; further ones are left out, which the title says. 49 combinations of colour, style and marker
# are distinct.
MOST_LINES = 40
MARKED = 8  # markers per line, if there are more lines than colours
LINE_HEIGHT = 0.21  # of a line of the legend, in inches
HUNDREDFOLD = 100.0  # costs and losses that differ by more than this factor get a logarithmic axis


@dataclass(frozen=True)
class RecordedRounds:
    """The data of a run that figures show.

    Attributes:
        folder: The folder of the run.
        trace: The per-round variables of its trace, in memory.
    """

    folder: Path
    trace: xarray.Dataset

    @property
    def evaluated(self) -> NDArray[np.int64]:
        """The rounds that were evaluated, counted from 0."""
        accuracy, loss = (self.trace[name].values for name in ("test_accuracy", "test_loss"))
        return np.flatnonzero(~(np.isnan(accuracy) & np.isnan(loss)))

    def check_evaluated(self) -> None:
        """Raise UserError if no round was evaluated."""
        if not self.evaluated.size:
            raise UserError(f"{self.folder}: no round of this run was evaluated")


@dataclass(frozen=True)
class LearningCurves:
    """The runs of one label, one per seed: metrics at the evaluated rounds, and cumulative costs.

    Attributes:
        label: The label in the legend.
        link: The kind of link.
        energy_units: "J", or "normalised".
        rounds: Evaluated rounds, counted from 1, [evaluations].
        accuracy: Test accuracy in %, [seeds, evaluations].
        loss: Test loss, [seeds, evaluations].
        energy: Cumulative transmit energy of all devices in `energy_units`, [seeds, evaluations].
        resource_elements: Cumulative resource elements, [seeds, evaluations].
    """

    label: str
    link: str
    energy_units: str
    rounds: np.ndarray
    accuracy: np.ndarray
    loss: np.ndarray
    energy: np.ndarray
    resource_elements: np.ndarray


def read_rounds(folder: Path) -> RecordedRounds:
    """Read the run in this folder, for all figures. Raises UserError if the folder has no trace."""
    with open_trace(folder) as dataset:
        return RecordedRounds(folder, dataset[[name for name in (*LEARNING, *PRIVACY) if name in dataset]].load())


@np.errstate(all="ignore")  # sums may overflow
def curves_of(label: str, runs: Sequence[RecordedRounds]) -> LearningCurves:
    """Return the curves of runs that differ in their seed only, at the evaluated rounds that all of them share.

    Raises UserError if they share none.
    """
    known: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
    for run in runs:
        run.check_evaluated()
        metrics = {name: run.trace[name].values for name in ("test_accuracy", "test_loss")}
        costs = {name: run.trace[name].values.astype(np.float64).cumsum() for name in ("energy_j", "resource_elements")}
        known.append((run.evaluated, {**metrics, **costs}))
    shared = reduce(np.intersect1d, [evaluated for evaluated, _ in known])
    if not shared.size:
        raise UserError(f"{runs[0].folder}: evaluated in other rounds than the other seeds; plot the runs separately")
    stacked = {name: np.stack([values[name][shared] for _, values in known]) for name in known[0][1]}
    return LearningCurves(
        label=f"{label}{mark_of([str(run.trace.attrs.get('status')) for run in runs])}",
        link=str(runs[0].trace.attrs.get("link")),
        energy_units=str(runs[0].trace["energy_j"].attrs["units"]),
        rounds=shared + 1,
        accuracy=100 * stacked["test_accuracy"],
        loss=stacked["test_loss"],
        energy=stacked["energy_j"],
        resource_elements=stacked["resource_elements"],
    )


def plot(groups: Sequence[tuple[str, Sequence[RecordedRounds]]], out: Path, style: Style | None = None) -> list[Path]:
    """Draw one line per (label, runs), write out/learning.png and out/learning.pdf, and return these files.

    Lines are means over seeds; over rounds they have a band of one standard deviation. Raises UserError if a file
    exists.
    """
    files = [out / name for name in FILES]
    check_new_files(files)
    curves = [curves_of(label, runs) for label, runs in groups]
    return write_figure(lambda figure: draw(figure, curves), files, (PAGE, 4.4) if style else (11, 6.2), style)


def check_new_files(files: Sequence[Path]) -> None:
    """Raise UserError if one of the files exists, even as a broken link: nothing is overwritten."""
    for file in files:
        if os.path.lexists(file):
            raise UserError(f"{file}: already exists; choose another --out")


def check_new_figures(out: Path, names: Sequence[str], option: str = "--plot") -> None:
    """Raise UserError if the figures cannot be written to this folder, or exist: nothing is overwritten."""
    check_can_be_folder(out, option)
    for name in names:
        if os.path.lexists(out / name):
            raise UserError(f"{out / name}: already exists; choose another folder for {option}")


def write_figure(
    draw: Callable[[Figure], None],
    files: Sequence[Path],
    size: tuple[float, float] | None = None,
    style: Style | None = None,
) -> list[Path]:
    """Draw a figure, write it to each file in the format of its suffix, and return the files.

    Args:
        draw: Draws on a figure.
        files: The files.
        size: Width and height in inches; None if `draw` sets it.
        style: The style, in which no text is smaller than its font size; None for the current one of Matplotlib.
    """
    from matplotlib import rcParams
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    with styled(style):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        if style:
            for text in figure.findobj(Text):
                assert isinstance(text, Text)
                text.set_fontsize(max(text.get_fontsize(), rcParams["font.size"]))
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            # Without a date, the same numbers give the same file.
            metadata: dict[str, Any] = (
                {"CreationDate": None, "Creator": MARK} if file.suffix == ".pdf" else {"Software": MARK}
            )
            dots = DOTS_PER_INCH if style else 150
            with replacing(file) as temporary:
                figure.savefig(temporary, format=file.suffix.removeprefix("."), dpi=dots, metadata=metadata)
    return list(files)


def look(number: int) -> dict[str, Any]:
    """Return colour, line style and marker of line `number`. Of the first 49, any two of the three are distinct, so
    that lines with markers can be told apart in greyscale."""
    turn = number // len(COLOURS)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": STYLES[(number + turn) % len(STYLES)],
        "marker": MARKERS[(number + 2 * turn) % len(MARKERS)],
    }


def lighten(axis: Axes) -> None:
    """Draw a light grid, and remove the upper and right spines."""
    axis.grid(alpha=0.3, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)


def frame(axis: Axes, means: Numbers, ends: Numbers) -> None:
    """Set the range of y so that the means fill at least a third of it however wide the bands are.

    The range is not extended below 0 unless a mean is negative.
    """
    lowest, highest = float(means.min()), float(means.max())
    room = highest - lowest
    if not room or not ends.size:
        return
    lowest = max(min(lowest, float(ends.min())), lowest - room)
    highest = min(max(highest, float(ends.max())), highest + room)
    margin = 0.05 * (highest - lowest)
    axis.set_ylim(lowest - margin if means.min() < 0 else max(lowest - margin, 0.0), highest + margin)


def draw(figure: Figure, curves: Sequence[LearningCurves]) -> None:
    """Draw accuracy (top) and loss (bottom) over rounds, energy and resource elements: means over seeds, with 95%
    intervals over rounds, or both curves of two seeds.

    Energies in different units cannot be compared: their axes then stay empty, and say so.
    """
    from matplotlib.ticker import MaxNLocator

    axes = figure.subplots(2, 3, sharey="row", sharex="col")
    apart = any(curve.link == "ideal" for curve in curves) and any(curve.link != "ideal" for curve in curves)
    drawn, bands = curves[:MOST_LINES], list[list[Numbers]]()
    units = sorted({curve.energy_units for curve in curves})
    for number, curve in enumerate(drawn):
        style = look(number)
        if len(drawn) > len(COLOURS):
            step = -(-len(curve.rounds) // MARKED)
            style |= {"markevery": (number * step // len(drawn), step), "markersize": 4}
        elif len(curve.rounds) > 1:  # a single point is visible only with a marker
            style["marker"] = None
        bands.append([])
        for row, (values, within) in enumerate(((curve.accuracy, PERCENT), (curve.loss, NOT_NEGATIVE))):
            bands[-1].append(_against_rounds(axes[row, 0], curve, values, within, style))
            for axis, cost in ((axes[row, 1], curve.energy), (axes[row, 2], curve.resource_elements)):
                if axis is axes[row, 1] and len(units) > 1:
                    continue
                # The ideal link costs orders of magnitude more than the others: only its last value is drawn.
                if apart and curve.link == "ideal":
                    axis.axhline(values.mean(axis=0)[-1], linewidth=0.8, **{**style, "marker": None, "markevery": None})
                else:
                    axis.plot(cost.mean(axis=0), values.mean(axis=0), **style)
    for row, name in enumerate(("test accuracy (%)", "test loss")):
        axes[row, 0].set_ylabel(name)
    for row, quantity in enumerate(("accuracy", "loss")):
        means = np.concatenate([getattr(curve, quantity).mean(axis=0) for curve in drawn])
        ends = np.concatenate([each[row] for each in bands])
        means, ends = means[np.isfinite(means)], ends[np.isfinite(ends)]  # a run may have diverged
        if means.size and quantity == "loss" and means.min() > 0 and means.max() > HUNDREDFOLD * means.min():
            axes[row, 0].set_yscale("log")
        elif means.size:
            frame(axes[row, 0], means, ends)
    axes[1, 0].xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 5, 10]))
    for column, name in enumerate(("round", f"energy of all devices ({' or '.join(units)})", "resource elements")):
        axes[1, column].set_xlabel(name)
    for axis in axes.flat:
        lighten(axis)
        axis.xaxis.get_major_formatter().set_powerlimits((-3, 4))
    priced = [curve for curve in drawn if not (apart and curve.link == "ideal")]
    for axis, costs in (
        (axes[1, 1], [curve.energy for curve in priced if len(units) == 1]),
        (axes[1, 2], [curve.resource_elements for curve in priced]),
    ):
        last = np.array([cost.mean(axis=0)[-1] for cost in costs])
        if len(last) and last.min() > 0 and last.max() > HUNDREDFOLD * last.min():
            axis.set_xscale("log")
    if len(curves) > len(drawn):
        figure.suptitle(f"first {len(drawn)} of {len(curves)} rows", fontsize="medium")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fit = legend_layout(labels, figure.get_figwidth() - 0.3, most=5)
    figure.set_figheight(figure.get_figheight() + LINE_HEIGHT * (fit.lines - 1))
    figure.legend(handles, fit.labels, loc="outside lower center", ncols=fit.columns, frameon=False)
    if len(units) > 1:
        axes[0, 1].set_title("different units: not drawn", fontsize="small", loc="left")
    elif apart:
        axes[0, 1].set_title("ideal link: last value", fontsize="small", loc="left")


def _against_rounds(
    axis: Axes, curve: LearningCurves, values: Numbers, within: Bounds, look: dict[str, Any]
) -> Numbers:
    """Draw the mean over seeds, with a 95% interval for three or more, and both of two as thin lines.

    Returns the ends of these intervals, or the values of two seeds.
    """
    axis.plot(curve.rounds, values.mean(axis=0), label=in_figure(curve.label), **look)
    if len(values) < FEWEST:
        for one in values if len(values) > 1 else ():
            axis.plot(curve.rounds, one, color=look["color"], alpha=0.5, linewidth=0.5)
        return values.ravel()
    intervals = [average(seeds, within) for seeds in values.T.tolist()]
    low, high = (np.array([getattr(one, end) for one in intervals]) for end in ("low", "high"))
    axis.fill_between(curve.rounds, low, high, color=look["color"], alpha=0.15, linewidth=0)
    return np.concatenate([low, high])
