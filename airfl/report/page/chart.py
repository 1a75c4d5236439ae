"""Plots of the page: plotly figures as data, which the page's script draws."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.analysis.results.averages import Average
from airfl.report.page.view import Look, spread
from airfl.runtime.numbers import figure, scientific

FONT = 14  # pixels, the smallest on the page
HEIGHT = 400
LOGARITHMIC_FROM = 30.0  # ratio of the largest to the smallest value of an axis
GREY = "#666666"
SMALLEST, MOST_DECADES = 1e-300, 300  # limits of what is drawn

Trace = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """A plot of the page.

    Attributes:
        name: Its id in the page.
        caption: Line of text above it.
        figure: Plotly's data and layout, and the choices of a menu, for the page's script.
    """

    name: str
    caption: str
    figure: dict[str, Any]


def chart(
    name: str,
    caption: str,
    traces: Sequence[Trace],
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    choices: Mapping[str, Mapping[str, Any]] | None = None,
) -> Chart:
    """Return a plot.

    Args:
        name: Its id in the page.
        caption: Line of text above it.
        traces: Traces as returned by `curve`, `band` and `points`.
        x: Horizontal axis as returned by `axis`.
        y: Vertical axis as returned by `axis`.
        choices: By the entries of the section's menu, what replaces x: "x", with one list per trace, and "axis".
    """
    import plotly.graph_objects as go

    layout = {
        "template": {},
        "height": HEIGHT,
        "margin": {"l": 64, "r": 12, "t": 36, "b": 52},
        "modebar": {"bgcolor": "rgba(255,255,255,0)", "color": "#8a8a8a", "activecolor": "#1a1a1a"},
        "font": {"size": FONT, "family": "system-ui, sans-serif", "color": "#1a1a1a"},
        "hoverlabel": {"font": {"size": FONT}, "align": "left", "bgcolor": "#ffffff"},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": x,
        "yaxis": y,
    }
    drawn = go.Figure(data=list(traces), layout=layout).to_plotly_json()
    return Chart(name, caption, {**drawn, "choices": choices or {}})


def axis(title: str, limits: tuple[float, float] | None = None) -> dict[str, Any]:
    """Return a linear axis, with limits in its own units."""
    drawn: dict[str, Any] = {
        "title": {"text": plotly_text(title), "standoff": 8},
        "type": "linear",
        "gridcolor": "#e3e3e3",
        "linecolor": GREY,
        "zeroline": False,
        "automargin": True,
        "exponentformat": "e",
        "nticks": 7,
    }
    return drawn if limits is None else {**drawn, "range": list(limits)}


def logarithmic(title: str, values: Sequence[float], limits: tuple[float, float] | None = None) -> dict[str, Any]:
    """Return a logarithmic axis for these values, with limits in its own units."""
    ticks = powers(limits or values)
    drawn = {**axis(title), "type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": tick_texts(ticks)}
    return drawn if limits is None else {**drawn, "range": [math.log10(max(end, SMALLEST)) for end in limits]}


def fitting(title: str, values: Sequence[float], limits: tuple[float, float] | None = None) -> dict[str, Any]:
    """Return a logarithmic axis if the values are positive and far apart, else a linear one with the limits."""
    known = [value for value in values if math.isfinite(value)]
    wide = known and min(known) > 0 and spread(known) > LOGARITHMIC_FROM
    return logarithmic(title, known) if wide else axis(title, limits)


def powers(values: Sequence[float]) -> list[float]:
    """Return ticks around the positive values: powers of ten, with 2 and 5 between them if these are few."""
    known = [value for value in values if math.isfinite(value) and value > 0]
    if not known:
        return []
    first, last = (
        max(math.floor(math.log10(min(known))), -MOST_DECADES),
        min(math.ceil(math.log10(max(known))), MOST_DECADES),
    )
    step = max(1, math.ceil((last - first) / 8))
    within = (1, 2, 5) if last - first <= 3 else (1,)
    return [float(f"{digit}e{power}") for power in range(first, last + 1, step) for digit in within]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Return the labels of ticks, formatted as in the tables."""
    return [figure(tick) if 1e-3 <= tick < 1e5 else scientific(tick).replace(".00", "") for tick in ticks]


def scatter(mode: str, x: Any, y: Any, **more: Any) -> Trace:
    """Return a trace of points without hover text, joined or not as `mode` says."""
    return {"type": "scatter", "mode": mode, "x": listed(x), "y": listed(y), "hoverinfo": "skip", **more}


def curve(series: str, x: Any, y: Any, texts: Sequence[str], look: Look) -> Trace:
    """Return a line, or a marker if there is only one point, with a hover text per point."""
    line = {"color": look.colour, "dash": look.dash, "width": 2}
    marker = {"color": look.colour, "symbol": look.symbol, "size": 9}
    mode = "lines" if len(texts) > 1 else "markers"
    return scatter(mode, x, y, legendgroup=series, **_said(texts), line=line, marker=marker)


def band(series: str, x: Any, low: Any, high: Any, look: Look, opacity: float) -> Trace:
    """Return the area between two lines, without the points at which they are not known."""
    known = np.isfinite(low) & np.isfinite(high)
    edges = np.concatenate([np.asarray(low)[known], np.asarray(high)[known][::-1]])
    filled = {"fill": "toself", "fillcolor": transparent(look.colour, opacity), "line": {"width": 0}}
    return scatter("lines", [], edges, legendgroup=series, **filled) | {"x": around(listed(x), known)}


def points(series: str, x: Any, y: Any, texts: Sequence[str], look: Look, **more: Any) -> Trace:
    """Return markers with a hover text each."""
    marker = {"color": look.colour, "symbol": look.symbol, "size": 10, "line": {"width": 1, "color": "#ffffff"}}
    return scatter("markers", x, y, legendgroup=series, **_said(texts), marker=marker, **more)


def _said(texts: Sequence[str]) -> Trace:
    return {"hovertext": [plotly_text(text) for text in texts], "hoverinfo": "text"}


def whiskers(averages: Sequence[Average], look: Look) -> dict[str, Any]:
    """Return error bars for the intervals; none where an interval is not known."""
    above, below = ([end or 0 for end in listed([getattr(one, to) for one in averages])] for to in ("above", "below"))
    ends = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    return {**ends, "color": transparent(look.colour, 0.6), "thickness": 1.2, "width": 3}


def single_runs(series: str, x: Sequence[Any], y: Sequence[Average], look: Look) -> list[Trace]:
    """Return small points for the single runs of groups with too few runs for an interval, if there are such groups.

    x holds numbers, or averages over the same seeds as in y.
    """
    places = [place for place, one in enumerate(y) if one.points]
    if not places:
        return []
    xs = [end for at in places for end in (x[at].values if isinstance(x[at], Average) else [x[at]] * len(y[at].values))]
    marker = {"color": transparent(look.colour, 0.6), "symbol": look.symbol, "size": 5}
    return [scatter("markers", xs, [end for at in places for end in y[at].points], legendgroup=series, marker=marker)]


def limits(averages: Sequence[Average], most: float = math.inf) -> tuple[float, float] | None:
    """Return limits within 0 and `most` for an axis: the means, and one deviation around them.

    Intervals are not used, since those over two seeds are wider than anything else on the axis. Return None if no mean
    is finite.
    """
    known = [one for one in averages if math.isfinite(one.mean)]
    if not known:
        return None
    around = [one.deviation if math.isfinite(one.deviation) else 0.0 for one in known]
    low = min(one.mean - width for one, width in zip(known, around, strict=True))
    high = max(one.mean + width for one, width in zip(known, around, strict=True))
    margin = 0.05 * (high - low) or 0.5
    return max(low - margin, 0.0), min(high + margin, most)


def plus_minus(percent: Average) -> str:
    """Return the text of a mean in % with its interval, or with the two values that it is the mean of."""
    return percent.written("{:.1f}".format)


def plotly_text(text: str) -> str:
    """Escape a text for plotly, which interprets a few elements as markup; line breaks are kept."""
    return html.escape(text, quote=False).replace("\n", "<br>")


def listed(values: Any) -> list[float | None]:
    """Return numbers for JSON with six digits; None for those that are not finite."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in np.asarray(values, float).tolist()]


def around(x: Sequence[float | None], known: NDArray[np.bool_]) -> list[float | None]:
    """Return the x coordinates of an area's outline: along one edge and back along the other."""
    there = [value for value, kept in zip(x, known, strict=True) if kept]
    return [*there, *reversed(there)]


def transparent(colour: str, opacity: float) -> str:
    """Return the colour #rrggbb with an opacity."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
