"""Styles of figures: Matplotlib's own, or that of IEEE papers, the style sheet airfl/ieee.mplstyle."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, get_args

from airfl.errors import UserError, unknown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = Literal["ieee"]
STYLES: tuple[str, ...] = get_args(Style)
SHEETS = {"ieee": "airfl.ieee"}
"""Name -> the style sheet as `matplotlib.style.use` takes it."""
COLUMN, PAGE = 3.5, 7.16
"""Widths of a column and of a page of an IEEE paper, in inches."""
DOTS_PER_INCH = 300


def check_style(style: str | None, where: str = "style") -> None:
    """Raise UserError for an unknown style; None is Matplotlib's own."""
    if style is not None and style not in STYLES:
        raise UserError(unknown_name(where, style, STYLES))


def styled(style: str | None) -> AbstractContextManager[Any]:
    """Return the context in which airfl's figures have this style, whatever the user's matplotlibrc says; with None
    the surrounding one. These figures name the look of each line, so lines have no markers unless one is named."""
    if style is None:
        return nullcontext()
    import matplotlib
    import matplotlib.style

    plain_lines = {"axes.prop_cycle": matplotlib.rcParamsDefault["axes.prop_cycle"]}
    return matplotlib.style.context([SHEETS[style], plain_lines], after_reset=True)


def new_axes(style: str | None) -> Axes:
    """Return the axes of a new pyplot figure. A figure with a style is also saved with it, so that its fonts are
    embedded as the style says."""
    from matplotlib import pyplot as plt

    if style is None:
        _, ax = plt.subplots(layout="constrained")
        return ax
    with styled(style):
        _, ax = plt.subplots(FigureClass=saved_with(style))
    return ax


def saved_with(style: str) -> type[Figure]:
    """Return the class of figures that are saved in this style."""
    from matplotlib.figure import Figure

    class StyledFigure(Figure):
        """A figure that is saved in the style in which it was drawn."""

        def savefig(self, *args: Any, **kwargs: Any) -> None:
            """Save as `Figure.savefig` does, in the style of the figure."""
            with styled(style):
                super().savefig(*args, **kwargs)

    return StyledFigure
