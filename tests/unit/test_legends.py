"""Legends of many groups with long names stay inside the figure, lines remain distinguishable; facets."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.resources import files

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase

from airfl.analysis.results import Results, read_results
from airfl.errors import UserError
from airfl.report import figures, privacy_figure
from airfl.report.figures import LearningCurves, look
from airfl.report.legend import legend_layout, wrap
from airfl.report.paper.facets import draw_in_facets
from airfl.report.paper.figures import FIGURES, find_figure
from airfl.report.paper.look import DOTS_PER_INCH, FACETS, LINES, PANEL_HEIGHT
from airfl.report.privacy_figure import PrivacyCurves
from airfl.runtime.notebook.style import styled
from tests.figures import sweep

LONG = "{} with a rather long name, as people give them, over the channel of chapter {}"
DRAWN = [name for name, figure in FIGURES.items() if figure.suffixes != (".md", ".tex")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Runs that every figure can be drawn of: a scheme over the air and a digital one, at two values of three keys."""
    keys = ("scheme.ratio", "privacy.epsilon", "power.max_snr_db")
    points = [
        {"scheme.name": name, **dict(zip(keys, values, strict=True))}
        for name in ("pfels", "fed-smp-randk")
        for values in ((0.2, 1.0, 10.0), (0.6, 1.0, 10.0), (0.2, 2.0, 10.0), (0.2, 1.0, 20.0))
    ]
    return read_results(sweep(tmp_path_factory.mktemp("sweep") / "s", points, (0,), "trace.gradient_norm=true"))


def with_labels(results: Results, labels: Sequence[str]) -> Results:
    """The same runs under each label."""
    return replace(results, runs=tuple(replace(run, label=label) for label in labels for run in results.runs))


def some_labels(count: int) -> list[str]:
    return [LONG.format(("PFELS", "Fed-SMP-randk")[number % 2], number) for number in range(count)]


def of_figure(name: str, runs: Results) -> Results:
    """Runs of which each label is one line: all of the figure's key, else those of one point of a scheme."""
    wanted = {"scheme.name": "fed-smp-randk" if name in ("accuracy-bits", "utility") else "pfels"}
    wanted |= {"scheme.ratio": 0.2, "privacy.epsilon": 1.0, "power.max_snr_db": 10.0}
    wanted.pop(find_figure(name).options.get("key"), None)
    return replace(runs, runs=tuple(run for run in runs.runs if wanted.items() <= run.values.items()))


@pytest.fixture
def papers_look() -> Iterator[None]:
    """As the papers' figures are written."""
    with styled("ieee"):
        yield


def in_facets(name: str, results: Results) -> Figure:
    """The figure, drawn as it is saved."""
    entry = find_figure(name)
    figure = Figure(figsize=(entry.width, PANEL_HEIGHT), dpi=DOTS_PER_INCH)
    module = import_module(f"airfl.report.paper.{entry.module}")
    FigureCanvasAgg(figure)
    joined = module.joined(results, **entry.options) if hasattr(module, "joined") else ()
    draw_in_facets(figure, results, lambda one, some: module.draw(one, some, **entry.options), joined)
    return figure


def parts(figure: FigureBase) -> list[FigureBase]:
    return [figure, *figure.subfigs]


def check_canvas(figure: Figure) -> None:
    """All texts and handles are inside of what is saved, panels have not collapsed, no legend covers one or a panel."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    whole = figure.bbox.padded(1)
    legends = [legend.get_window_extent(renderer) for part in parts(figure) for legend in part.legends]
    assert legends
    axes = [axis for part in parts(figure) for axis in part.get_axes()]
    texts = [text for axis in axes for text in (axis.xaxis.label, axis.yaxis.label, axis.title, axis._left_title)]  # type: ignore[attr-defined]
    for box in (*legends, *(text.get_window_extent(renderer) for text in texts if text.get_text())):
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1, box
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1, box
    panels = [axis.get_window_extent(renderer) for axis in axes]
    assert min(min(box.width, box.height) for box in panels) > 0.5 * figure.dpi
    assert not any(legend.overlaps(box) for legend in legends for box in panels)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(legends, 2))


def names_in(figure: Figure) -> list[str]:
    """What the legends say, of each part."""
    legends = [legend for part in parts(figure) for legend in part.legends]
    return [re.sub(r"\s+", " ", text.get_text()) for legend in legends for text in legend.get_texts()]


@pytest.mark.usefixtures("papers_look")
@pytest.mark.parametrize("name", DRAWN)
def test_nine_long_names_are_whole(name: str, runs: Results) -> None:
    labels = some_labels(9)
    figure = in_facets(name, with_labels(of_figure(name, runs), labels))
    check_canvas(figure)
    assert not figure.subfigs
    assert [one for one in names_in(figure) if one in labels] == labels


@pytest.mark.usefixtures("papers_look")
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 11) for name in ("accuracy-ratio", "energy", "utility", "privacy-accuracy")),
        pytest.param("learning-rounds", 23, marks=pytest.mark.full),
    ],
)
def test_more_lines_than_ten_are_drawn_in_facets(name: str, count: int, runs: Results) -> None:
    """All of them, once, ten in a facet at most, each told apart in it; on the same axes."""
    labels = some_labels(count)
    figure = in_facets(name, with_labels(of_figure(name, runs), labels))
    check_canvas(figure)
    assert len(figure.subfigs) == -(-count // LINES)
    assert [one for one in names_in(figure) if one in labels] == labels
    for part in figure.subfigs:
        lines = [line for line in part.axes[0].lines if line.get_label() in labels]
        looks = {(line.get_color(), line.get_marker()) for line in lines}
        assert 0 < len(lines) == len(looks) <= LINES
    assert len({(part.axes[0].get_xlim(), part.axes[0].get_ylim()) for part in figure.subfigs}) == 1


@pytest.mark.usefixtures("papers_look")
def test_a_key_that_divides_the_lines_makes_the_facets(runs: Results) -> None:
    """Named by its value, which the lines then need not say."""
    several = [
        replace(run, label="", values={**run.values, "local.steps": steps, "power.max_snr_db": snr})
        for run in of_figure("accuracy-ratio", runs).runs
        for steps in (1, 2, 3)
        for snr in (5.0, 10.0, 15.0, 20.0)
    ]
    figure = in_facets("accuracy-ratio", Results(tuple(several), (*runs.axes, "local.steps")))
    check_canvas(figure)
    titles = [part.legends[0].get_title().get_text() for part in figure.subfigs]
    assert titles == ["τ = 1", "τ = 2", "τ = 3"]
    assert names_in(figure) == [f"PFELS, SNR = {snr:.1f} dB" for snr in (5, 10, 15, 20)] * 3


@pytest.mark.usefixtures("papers_look")
def test_more_than_a_page_of_facets_is_refused(runs: Results) -> None:
    many = with_labels(of_figure("learning-rounds", runs), [f"{number}" for number in range(LINES * FACETS + 1)])
    with pytest.raises(UserError, match="121 lines are too many for at most 12 panels of 10 lines each"):
        in_facets("learning-rounds", many)


def test_no_two_lines_look_the_same() -> None:
    """Not even without their markers."""
    looks = [tuple(look(number).values()) for number in range(49)]
    assert len({(colour, style) for colour, style, _ in looks}) == 49


@pytest.mark.parametrize(
    ("count", "most"),
    [(1, 40), (18, 12), pytest.param(25, 40, marks=pytest.mark.full), pytest.param(60, 40, marks=pytest.mark.full)],
)
def test_the_learning_figure_of_many_runs(count: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty lines at most take seconds to draw: in short, a dozen are the most."""
    assert figures.MOST_LINES == 40
    monkeypatch.setattr(figures, "MOST_LINES", most)
    rounds, rise = np.arange(1, 31), np.linspace(0, 1, 30)[None]
    curves = [
        LearningCurves(label, "analog", "normalised", rounds, 50 + number + rise, 2 - rise, rise + 1, rise + 1)
        for number, label in enumerate(some_labels(count))
    ]
    figure = Figure(figsize=(11, 6.2), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    figures.draw(figure, curves)
    check_canvas(figure)
    shown = min(count, most)
    assert names_in(figure) == some_labels(shown)
    lines = figure.axes[0].lines
    assert len({(line.get_color(), line.get_marker(), line._unscaled_dash_pattern) for line in lines}) == shown
    assert figure.get_suptitle() == (f"first {most} of {count} rows" if count > most else "")


@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.full), 9])
def test_the_titles_of_the_privacy_figure(count: int) -> None:
    """Above their panels, in as many lines as it takes; no two overlap."""
    curves = {name: np.geomspace(1, 100, 20) for name in privacy_figure.LOOKS}
    rows = [PrivacyCurves(f"{label}, p = 0.3", "client level, δ = 0.001", 2, curves) for label in some_labels(count)]
    figure = Figure(layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    privacy_figure.draw(figure, rows)
    check_canvas(figure)
    titles = [axis._left_title for axis in figure.axes if axis.axison]  # type: ignore[attr-defined]
    boxes = [title.get_window_extent() for title in titles]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all("p = 0.3" in title.get_text() for title in titles)


def test_long_names_are_broken_between_words() -> None:
    text = wrap("PFELS over a channel, scheme.ratio = 0.3, power.max_snr_db = 15.0", 2.0)
    assert text.split("\n") == ["PFELS over a channel,", "scheme.ratio = 0.3,", "power.max_snr_db = 15.0"]
    assert wrap("PFELS", 2.0) == "PFELS"
    assert "\n" in wrap("x" * 200, 2.0)
    fit = legend_layout(["short", "x" * 200, "short"], 4.0)
    assert fit.columns == 1
    assert fit.lines > 3


def test_the_pages_legends_have_no_largest_height() -> None:
    """A legend that scrolls is cut off on paper and at a glance."""
    style = files("airfl.report.page").joinpath("page.css").read_text(encoding="utf-8")
    (rule,) = re.findall(r"^\.legend \{(.*?)\}", style, re.M | re.S)
    assert "flex-wrap: wrap" in rule
    assert not re.search("max-height|overflow", rule)
