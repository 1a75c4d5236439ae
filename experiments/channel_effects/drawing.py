"""Style of the figures, and formatting of the quoted lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from airfl.report.figures import COLOURS, STYLES

ERROR = "error of the mean over its power"
SIZE_INCHES, DPI = (6.6, 3.1), 110
MARKERS = "osD^vP*"


def blank() -> Figure:
    """Return an empty figure."""
    figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, file: Path) -> Path:
    """Write a PNG with 128 colors, a third of the size of one with all colors. The folder is created if needed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]
    Image.fromarray(pixels.copy()).quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)
    return file


def panels(figure: Figure, count: int = 2) -> list[Axes]:
    """Return axes side by side."""
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for axis in axes:
        axis.grid(alpha=0.3, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return axes


def line(number: int, marked: bool = False) -> dict[str, Any]:
    """Return the style of a closed form, or with `marked` that of simulated points without a closed form."""
    look = {"color": COLOURS[number], "linestyle": STYLES[number], "linewidth": 1.4}
    return {**look, "marker": MARKERS[number], "markersize": 4.0} if marked else look


def dots(number: int) -> dict[str, Any]:
    """Return the style of simulated points shown next to a closed form."""
    return {"color": COLOURS[number], "linestyle": "none", "marker": MARKERS[number], "markersize": 4.0}


def label(axis: Axes, x: str, y: str, *, legend: str | None = "best", **limits: Any) -> None:
    """Set labels with units, legend and scales of an axis. legend: its location, None for no legend."""
    axis.set_xlabel(x, fontsize=8.5)
    axis.set_ylabel(y, fontsize=8.5)
    axis.set(**limits)
    if legend:
        look: dict[str, Any] = {"loc": legend, "frameon": False, "fontsize": 7.2, "handlelength": 2.4}
        axis.legend(labelspacing=0.3, **look)


def quote(what: str, values: Sequence[Any] | np.ndarray[Any, Any], at: Mapping[int, str], digits: str = ".2g") -> str:
    """Return a line such as "what 1.4 (0 dB), 0.14 (10 dB)". at: indices of the quoted values and their labels."""
    return f"{what} " + ", ".join(f"{values[index]:{digits}} ({where})" for index, where in at.items())
