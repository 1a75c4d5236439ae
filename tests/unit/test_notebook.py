"""What objects show of themselves in a notebook: tables, plots, and bars of progress."""

import math
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from rich.console import Console

import airfl
from airfl.analysis.results import Results, read_results
from airfl.core.progress import Planned, round_progress
from airfl.errors import UserError
from airfl.runtime.notebook.html import MOST_ROWS, html_table
from airfl.runtime.time_left import RunLength
from airfl.simulation import Run
from airfl.study.sweeps.progress import sweep_progress
from airfl.study.sweeps.status import Status
from tests.conftest import small_settings
from tests.figures import sweep
from tests.report_page import summarised
from tests.small_data import run

HOSTILE = "<script>alert(1)</script> & \x1b[2J"


class Cells(HTMLParser):
    """The texts of the cells of a table, row by row, and all tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows, self.tags = list[list[str]](), set[str]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(small_settings("run.rounds=4", "run.evaluate_every=2"), tmp_path_factory.mktemp("notebook") / "run")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """PFELS at two ratios, two seeds each."""
    root = tmp_path_factory.mktemp("notebook") / "sweep"
    points = [{"scheme.ratio": ratio} for ratio in (0.5, 0.1)]
    return read_results(sweep(root, points, (0, 1), "run.rounds=2", "run.evaluate_every=1"))


def test_tables_are_escaped_and_their_length_is_limited() -> None:
    cells = Cells(html_table(HOSTILE, [(HOSTILE, 0.123456), ("b", None)]))
    assert cells.tags == {"table", "caption", "tbody", "tr", "th", "td"}
    assert cells.rows == [["<script>alert(1)</script> & \\x1b[2J", "0.1235"], ["b", ""]]
    long = html_table("", [(str(row), row) for row in range(MOST_ROWS + 5)])
    assert len(Cells(long).rows) == MOST_ROWS
    assert "5 more rows" in long


def test_a_run_shows_the_figures_of_its_summary(finished: Run) -> None:
    shown, summary = Cells(finished._repr_html_()), finished.summary()
    rows = dict(shown.rows)
    assert rows["test accuracy"] == f"{summary.test_accuracy:.4g}"
    assert rows[f"energy ({summary.energy_units})"] == f"{summary.energy:.4g}"
    assert rows["resource elements"] == f"{summary.resource_elements:,}"
    assert summary.broken_claim() is not None
    assert "does not hold" in finished._repr_html_() or "not proven" in finished._repr_html_()


def test_experiments_and_budgets_show_themselves(finished: Run) -> None:
    experiment = airfl.Experiment.of(finished.settings)
    rows = dict(Cells(experiment._repr_html_()).rows)
    assert rows["scheme"] == repr(experiment.scheme)
    assert "rounds=4" in rows["run"]
    budget = airfl.link_budget(finished.settings)
    rows = dict(Cells(budget._repr_html_()).rows)
    assert rows["energy (normalised)"] == f"{budget.energy_j:.4g}"
    assert rows["air time (s)"] == f"{budget.air_time_s:.4g}"
    assert not any(name.endswith(" j") for name in rows)


def test_results_show_means_and_deviations_of_groups(compared: Results) -> None:
    heading, *rows = Cells(compared._repr_html_()).rows
    assert heading[:3] == ["group", "seeds", "test accuracy %"]
    group = compared.groups[0]
    values = [100 * one.digest.summary.test_accuracy for one in group.runs]
    assert rows[0][0] == group.name
    assert rows[0][1] == "2"
    assert rows[0][2] == f"{np.mean(values):.4g} ± {np.std(values, ddof=1):.2g}"


def test_the_course_of_a_run_is_drawn_from_its_trace(finished: Run) -> None:
    with finished.trace() as trace:
        accuracy = trace["test_accuracy"].values
        energy = trace["energy_j"].values.cumsum()
    axes = finished.plot()
    x, y = axes.lines[0].get_data()
    evaluated = ~np.isnan(accuracy)
    assert 0 < evaluated.sum() < 4
    assert list(np.asarray(x)) == list(np.flatnonzero(evaluated) + 1)
    np.testing.assert_array_equal(y, accuracy[evaluated])
    assert axes.get_xlabel() == "round"
    again = finished.plot("test_loss", "energy_j", ax=axes)
    assert again is axes
    np.testing.assert_allclose(axes.lines[1].get_xdata(), energy[evaluated])
    assert axes.get_xlabel() == "energy_j (normalised), sum so far"
    plt.close(axes.figure)  # type: ignore[arg-type]
    figure = finished.plotly(x="energy_j")
    np.testing.assert_allclose(figure.data[0].x, energy[evaluated])


@pytest.mark.parametrize(
    ("y", "x", "said"),
    [
        ("accuracy", "round", "did you mean test_accuracy"),
        ("test_accuracy", "energy", "did you mean energy_j"),
        ("test_accuracy", "epsilon", "x: unknown value"),
        ("gradient_norm_squared", "round", "is nan in all rounds"),
    ],
)
def test_what_is_not_in_a_trace_is_refused_in_one_line(finished: Run, y: str, x: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        finished.plot(y, x)


def test_figures_against_a_swept_setting(compared: Results) -> None:
    frame = compared.frame()
    axes = compared.plot(hue="seed")  # a line a seed
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["0", "1"]
    plt.close(axes.figure)  # type: ignore[arg-type]
    for given in ("scheme.ratio", "ratio"):
        axes = compared.plot(given, "energy", hue="scheme")
        drawn = axes.containers[0].lines[0]  # type: ignore[attr-defined]
        assert list(drawn.get_xdata()) == [0.1, 0.5]
        means = [frame.loc[frame["scheme.ratio"] == ratio, "energy"].mean() for ratio in (0.1, 0.5)]
        np.testing.assert_allclose(drawn.get_ydata(), means)
        plt.close(axes.figure)  # type: ignore[arg-type]
    figure = compared.plotly("ratio", "energy", hue="scheme")
    deviations = [frame.loc[frame["scheme.ratio"] == ratio, "energy"].std() for ratio in (0.1, 0.5)]
    np.testing.assert_allclose(figure.data[0].error_y.array, deviations)


def test_runs_that_differ_in_further_settings_have_lines_of_their_own(compared: Results) -> None:
    """Two ratios at two levels of noise, two seeds each: no point averages over what is not a seed."""
    first = compared.runs[0]
    runs = [
        replace(
            summarised(first, test_accuracy=ratio + level / 100 + seed / 1000),
            values={"scheme.name": "pfels", "scheme.ratio": ratio, "power.max_snr_db": level},
            seed=seed,
        )
        for ratio in (0.1, 0.5)
        for level in (5.0, 20.0)
        for seed in (0, 1)
    ]
    results = Results(tuple(runs), ("scheme.ratio", "scheme.name", "power.max_snr_db"))
    axes = results.plot()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["pfels, max_snr_db = 5.0", "pfels, max_snr_db = 20.0"]
    for container, level in zip(axes.containers, (5.0, 20.0), strict=True):
        np.testing.assert_allclose(container.lines[0].get_ydata(), [one + level / 100 + 0.0005 for one in (0.1, 0.5)])  # type: ignore[attr-defined]
    plt.close(axes.figure)  # type: ignore[arg-type]
    assert [line.name for line in results.plotly(x="max_snr_db", hue="scheme").data] == [
        "pfels, ratio = 0.1",
        "pfels, ratio = 0.5",
    ]
    # Along a figure that tells the runs apart there is nothing to separate.
    (line,) = results.plotly(x="test_accuracy", y="test_accuracy", hue="scheme").data
    assert (line.name, len(line.x)) == ("pfels", 8)
    labelled = Results(tuple(replace(run, label=f"at {run.values['power.max_snr_db']}") for run in runs), results.axes)
    assert [line.name for line in labelled.plotly(hue="scheme.name").data] == [
        "pfels, max_snr_db = 5.0, row = at 5.0",
        "pfels, max_snr_db = 20.0, row = at 20.0",
    ]


def test_an_epsilon_against_a_setting_bounds_that_of_every_seed(compared: Results) -> None:
    given = {0: (3.0, 0.5), 1: (7.0, 0.2)}  # of each seed
    runs = [summarised(run, epsilon=given[run.seed][0], epsilon_at_least=given[run.seed][1]) for run in compared.runs]
    results = Results(tuple(runs), compared.axes)
    for name, bound in (("epsilon", 7.0), ("epsilon_at_least", 0.2)):
        (line,) = results.plotly("ratio", name, hue="scheme").data
        assert list(line.y) == [bound, bound]
        assert line.error_y.array is None


def test_energies_of_two_units_are_not_drawn_on_one_axis(compared: Results) -> None:
    first, *others = compared.runs
    mixed = Results((summarised(first, energy_units="J"), *others), compared.axes)
    for x, y in (("ratio", "energy"), ("energy", "test_accuracy")):
        with pytest.raises(UserError, match="plot: the runs' energies are in J and in normalised; compare runs"):
            mixed.plotly(x, y)
    assert mixed.plotly("ratio", "test_accuracy").data


def test_columns_that_are_not_there_are_refused(compared: Results) -> None:
    with pytest.raises(UserError, match="x: unknown value 'ration'; did you mean"):
        compared.plot("ration")
    with pytest.raises(UserError, match="y: unknown value 'group'"):
        compared.plot(y="group")
    with pytest.raises(UserError, match="hue: unknown value"):
        compared.plot(hue="colour")
    with pytest.raises(UserError, match="there are no runs"):
        Results(()).plot()


class Handle:
    """A display of IPython's that is updated in place."""

    def __init__(self, shown: list[str], html: Any) -> None:
        self.shown, self.place = shown, len(shown)
        shown.append(html.data)

    def update(self, html: Any) -> None:
        self.shown[self.place] = html.data


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The output of a cell, as the HTML of its displays."""
    display = pytest.importorskip("IPython.display")
    shown: list[str] = []
    monkeypatch.setattr(display, "display", lambda html, display_id: Handle(shown, html))
    return shown


def test_progress_in_a_notebook_is_one_bar_a_run(cell: list[str]) -> None:
    now = [0.0]
    plan = [Planned(HOSTILE, "", RunLength(3)), Planned("b", "", RunLength(3))]
    with round_progress(plan, Console(force_jupyter=True), lambda: now[0]) as progress:
        report = progress.labelled_reporter()
        for label in (HOSTILE, "b"):
            for done in (1, 2, 3):
                now[0] += 1.0
                report(label, done, 3, {"test_accuracy": 0.5 if done == 3 else math.nan})
                assert f'value="{done}" max="3"' in cell[-1]
    assert len(cell) == 2
    assert "script" not in Cells(cell[0]).tags
    assert "round 3/3, accuracy 50.0%, done in 3 s" in cell[0]
    assert "run 2 of 2, all done in 6 s" in cell[1]


def test_progress_of_a_sweep_in_a_notebook(cell: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with sweep_progress(Console(force_jupyter=True), lambda: 0.0) as report:
        report(Status(2))
        report(Status(2, failed=1, last="p = 1", cause="it diverged", seconds=1.0))
        report(Status(2, done=1, failed=1, seconds=1.0))
    assert len(cell) == 1
    assert 'value="2" max="2"' in cell[0]
    assert "1 of 2 points, 1 failed" in cell[0]
    assert "failed: p = 1: it diverged" in capsys.readouterr().err


def test_importing_airfl_imports_no_library_for_plots(tmp_path: Path) -> None:
    """Each takes a second."""
    code = (
        "import sys, airfl; airfl.Experiment; airfl.Results; airfl.Run; "
        "print([name for name in ('IPython', 'plotly', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
