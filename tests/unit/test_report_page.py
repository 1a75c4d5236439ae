"""The report page: its numbers against the traces, its markup, and its errors."""

import base64
import hashlib
import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import xarray
from hypothesis import given
from hypothesis import strategies as st

from airfl.analysis.results.collect import read_results
from airfl.analysis.results.result import Results
from airfl.cli.report import report
from airfl.errors import UserError
from airfl.report.page import page as page_module
from airfl.report.page import write_page
from airfl.report.page.chart import powers, tick_texts
from airfl.report.page.page import environment, html_page
from airfl.report.page.pareto import front
from airfl.report.page.view import BEST, PageView
from airfl.report.table import COLUMNS, TableRow, cells
from airfl.storage.trace import open_trace
from tests.report_page import CAUSE, RATIOS, SCRIPT, Page, make_comparison, make_sweep, summarised

LABELS = ("FedAvg, ideal", SCRIPT, "WFL-PDP")
IDEAL, PFELS, PDP = range(3)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_comparison(tmp_path_factory.mktemp("report") / "comparison")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sweep(tmp_path_factory.mktemp("report") / "sweep")


@pytest.fixture(scope="module")
def page(comparison: Path) -> Page:
    return Page(html_page(PageView(read_results(comparison), (comparison,))))


@pytest.fixture(scope="module")
def swept(sweep: Path) -> Page:
    return shown(read_results(sweep), sweep)


@cache
def loaded(folder: Path) -> list[list[xarray.Dataset]]:
    """The traces of each row, straight from the files, in the order of the rows."""
    rows: list[list[xarray.Dataset]] = [[], [], []]
    for path in sorted(folder.glob("*/*/trace.h5")):
        with open_trace(path) as trace:
            rows[("fedavg", "pfels", "wfl-pdp").index(trace.attrs["scheme"])].append(trace.load())
    return rows


def of_traces(folder: Path, variable: str) -> np.ndarray:
    """[rows, seeds, rounds]."""
    return np.array([[trace[variable].values.astype(np.float64) for trace in row] for row in loaded(folder)])


def numbers(page: Page, table: str, heading: str) -> list[float]:
    """The values of a column, by which it is sorted."""
    return [float(cell.value or "") for cell in page.column(table, heading)]


def interval(values: np.ndarray) -> tuple[float, float]:
    """Student's, of an accuracy in %, cut to what one can be."""
    half = float(scipy.stats.t.ppf(0.975, len(values) - 1) * scipy.stats.sem(values))
    return max(values.mean() - half, 0.0), min(values.mean() + half, 100.0)


def shown(results: Results, folder: Path) -> Page:
    return Page(html_page(PageView(results, (folder,))))


# The comparison's numbers


def test_accuracies_of_two_seeds_are_both_and_their_mean_sorts_them(comparison: Path, page: Page) -> None:
    found = page.column("comparison-table", "accuracy %")
    for cell, values in zip(found, of_traces(comparison, "test_accuracy")[:, :, -1], strict=True):
        assert float(cell.value or "") == pytest.approx(values.mean(), rel=1e-14)
        assert cell.text == f"{100 * values[0]:.1f}; {100 * values[1]:.1f}"
        assert cell.title == f"{float(values.mean())!r}, mean of 2 seeds: {float(values[0])!r} and {float(values[1])!r}"
    assert "of two seeds both values" in page.text


def test_three_seeds_have_an_interval_that_ends_where_shares_do(comparison: Path) -> None:
    """Invented accuracies of one row: near one end, near the other, in the middle."""
    first = next(run for run in read_results(comparison).runs if run.label == LABELS[PFELS])
    tried = {"low": (0.0, 0.02, 0.2), "high": (0.7, 0.99, 1.0), "middle": (0.5, 0.52, 0.55)}
    cases = [(name, seed, value) for name, values in tried.items() for seed, value in enumerate(values)]
    made = [replace(summarised(first, test_accuracy=value), label=name, seed=seed) for name, seed, value in cases]
    few = shown(Results(tuple(made)), comparison)
    cells = few.column("comparison-table", "accuracy %")
    every = few.figure("plot-front-energy")["data"][1:]
    points = {text.split("<br>")[0]: point for point in every for text in point["hovertext"]}
    for (name, values), cell in zip(tried.items(), cells, strict=True):
        percents = 100 * np.array(values)
        low, high = interval(percents)
        wanted = f"{percents.mean():.1f} ({low:.1f} to {high:.1f})"
        assert cell.text == (f"{percents.mean():.1f} ± {high - percents.mean():.1f}" if name == "middle" else wanted)
        bars = points[name]["error_y"]
        assert not bars["symmetric"]
        assert bars["array"] == pytest.approx([high - percents.mean()], rel=1e-4)
        assert bars["arrayminus"] == pytest.approx([percents.mean() - low], rel=1e-4)


COSTS = {"energy": "energy_j", "resource elements": "resource_elements", "bits": "uplink_bits"}


def test_costs_are_the_traces_sums_and_epsilons_their_last(comparison: Path, page: Page) -> None:
    """The largest of the seeds. Infinity is written; beside others the ideal link is there for its accuracy."""
    for heading, variable in COSTS.items():
        found = [float(cell.value or "nan") for cell in page.column("comparison-table", heading)]
        sums = of_traces(comparison, variable).sum(axis=2).mean(axis=1)
        sums[IDEAL] = sums[IDEAL] if heading == "bits" else math.nan
        assert found == pytest.approx(list(sums), rel=1e-12, nan_ok=True)
    epsilons = page.column("comparison-table", "ε run")
    last = of_traces(comparison, "epsilon")[:, :, -1].max(axis=1)
    assert epsilons[IDEAL].text == epsilons[IDEAL].value == "inf"
    assert numbers(page, "comparison-table", "ε run") == pytest.approx(list(last))
    assert page.column("comparison-table", "ε claimed")[IDEAL].text == "-"


def test_every_number_is_written_as_in_the_terminal(comparison: Path, page: Page) -> None:
    head, *rows = page.tables["comparison-table"]
    by_heading = {column.heading: column for column in COLUMNS}
    groups = read_results(comparison).groups
    lines = [TableRow(group.name, [run.digest.summary for run in group.runs]) for group in groups]
    for line, row in zip(lines, rows, strict=True):
        columns = [by_heading[cell.text] for cell in head[2:]]
        wanted = cells(line, columns, lines)[1:]
        assert [cell.text.partition(" ±")[0] for cell in row[2:]] == [text.partition(" ±")[0] for text in wanted]
    assert [row[0].text for row in rows] == list(LABELS)
    assert [row[1].text for row in rows] == ["2", "2", "2"]


def test_swept_values_have_columns_of_numbers_and_are_drawn_against_accuracy(sweep: Path, swept: Page) -> None:
    assert numbers(swept, "comparison-table", "ratio") == list(RATIOS)
    kinds = [attributes.get("data-kind") for name, attributes in swept.elements if name == "th"]
    assert kinds[:3] == ["text", "number", "number"]
    assert " ± " not in swept.column("comparison-table", "accuracy %")[0].text  # one seed has no interval
    (curve,) = swept.figure("plot-swept-0")["data"]
    accuracy = []
    for ratio in RATIOS:
        with open_trace(sweep / f"ratio-{ratio}") as trace:
            accuracy.append(100 * float(trace["test_accuracy"][-1]))
    assert curve["x"] == list(RATIOS)
    assert curve["y"] == pytest.approx(accuracy, rel=1e-5)


# Plots


def lines(page: Page, plot: str) -> list[dict[str, list[float]]]:
    return [trace for trace in page.figure(plot)["data"] if trace.get("hovertext")]


def test_learning_curves_are_the_traces(comparison: Path, page: Page) -> None:
    """And the area of two seeds is what lies between them."""
    accuracy, loss = 100 * of_traces(comparison, "test_accuracy"), of_traces(comparison, "test_loss")
    for row, (curve, of_loss) in enumerate(zip(lines(page, "plot-accuracy"), lines(page, "plot-loss"), strict=True)):
        assert curve["x"] == [1, 2, 3, 4]
        assert curve["y"] == pytest.approx(accuracy[row].mean(axis=0), rel=1e-5)
        assert of_loss["y"] == pytest.approx(loss[row].mean(axis=0), rel=1e-5)
    area = page.figure("plot-accuracy")["data"][2 * PFELS]
    low, high = accuracy[PFELS].min(axis=0), accuracy[PFELS].max(axis=0)
    assert area["fill"] == "toself"
    assert area["x"] == [1, 2, 3, 4, 4, 3, 2, 1]
    assert area["y"] == pytest.approx([*low, *high[::-1]], rel=1e-5)


def test_an_interval_is_said_only_where_there_is_one(swept: Page, sweep: Path) -> None:
    """Not of a single seed."""
    first = read_results(sweep).runs[0]
    three = shown(Results(tuple(replace(first, seed=seed) for seed in range(3))), sweep)
    for found, said in ((swept, False), (three, True)):
        texts = [text for curve in found.figure("plot-loss")["data"] for text in curve.get("hovertext", ())]
        assert {"95% interval" in text for text in texts} == {said}


def test_what_curves_can_be_drawn_against_is_spent_so_far(comparison: Path, page: Page) -> None:
    """A group without bits is nowhere on their axis."""
    figure = page.figure("plot-accuracy")
    for choice, variable in (("energy", "energy_j"), ("resource_elements", "resource_elements")):
        spent = of_traces(comparison, variable).cumsum(axis=2).mean(axis=1)
        found = figure["choices"][choice]["x"]
        curves = [x for x, trace in zip(found, figure["data"], strict=True) if trace.get("hovertext")]
        assert np.array(curves) == pytest.approx(spent, rel=1e-5)
    bits = page.figure("plot-loss")["choices"]["uplink_bits"]["x"]
    assert all(value is None for value in bits[2 * PFELS + 1])
    assert all(value > 0 for value in bits[2 * IDEAL + 1])


def test_points_of_the_fronts_and_the_line_through_the_best(comparison: Path, page: Page) -> None:
    energies = of_traces(comparison, "energy_j").sum(axis=2)
    accuracies = 100 * of_traces(comparison, "test_accuracy")[:, :, -1]
    energy, accuracy = energies.mean(axis=1), accuracies.mean(axis=1)
    line, *every = page.figure("plot-front-energy")["data"]
    points = [point for point in every if point.get("hovertext")]
    single = [point for point in every if not point.get("hovertext")]
    for point, x, y in zip(single, energies, accuracies, strict=True):
        assert point["x"] == pytest.approx(list(x), rel=1e-5)  # two seeds: two points
        assert point["y"] == pytest.approx(list(y), rel=1e-5)
    assert not any(any(point["error_y"]["array"]) for point in points)
    assert [point["x"][0] for point in points] == pytest.approx(list(energy), rel=1e-5)
    assert [point["y"][0] for point in points] == pytest.approx(list(accuracy), rel=1e-5)
    ascending = np.argsort(energy)
    best = [place for place in ascending if accuracy[place] > accuracy[energy < energy[place]].max(initial=0)]
    assert line["y"] == pytest.approx([accuracy[place] for place in best], rel=1e-5)


def test_claimed_against_true(comparison: Path, page: Page) -> None:
    _, *points = page.figure("plot-privacy")["data"]
    claimed = of_traces(comparison, "epsilon_paper").max(axis=2).mean(axis=1)
    true = of_traces(comparison, "epsilon_round").max(axis=(1, 2))
    assert points[IDEAL]["x"] == []
    for row in (PFELS, PDP):
        assert points[row]["x"] == pytest.approx([claimed[row]], rel=1e-5)
        assert points[row]["y"] == pytest.approx([true[row]], rel=1e-5)
    assert "client level" in points[PDP]["hovertext"][0]
    assert "0 of these claims hold, 2 do not" in page.text
    assert "pfels, seed 0: epsilon 1.5 is claimed for a round, which does not hold" in page.text


def test_a_claim_is_judged_only_by_what_the_trace_has(comparison: Path) -> None:
    """PFELS that failed in its first round claims an epsilon nevertheless, and an epsilon of fewer rounds than have run
    may exceed the claim for the run, but not confirm it."""
    runs = read_results(comparison).runs
    ideal, pfels = (next(run for run in runs if run.label == LABELS[place]) for place in (IDEAL, PFELS))
    of_run = {"claim_scope": "run", "epsilon_paper": 2.0, "epsilon": 1.5, "epsilon_at_least": 1.4}
    unknown: list[dict[str, Any]] = [
        {"epsilon_paper": math.nan, "epsilon_round": math.nan},
        {**of_run, "epsilon": math.nan, "epsilon_at_least": math.nan},
        {**of_run, "status": "failed"},
    ]
    for changes in unknown:
        found = shown(Results((ideal, summarised(pfels, **changes))), comparison)
        assert "for 1 of 2 groups: 0 of these claims hold, 0 do not, 1 cannot be judged by the trace" in found.text
        assert f"Nothing claimed: {LABELS[IDEAL]}." in found.text
    broken = {**of_run, "status": "failed", "epsilon_paper": 1.0}
    for changes, said in ((of_run, "1 of these claims hold, 0 do not."), (broken, "0 of these claims hold, 1 do not.")):
        assert said in shown(Results((summarised(pfels, **changes),)), comparison).text


def test_of_many_groups_the_best_are_drawn(sweep: Path) -> None:
    first = read_results(sweep).runs[0]
    runs = (
        replace(summarised(first, test_accuracy=number * 7 % 40 / 40), values={"scheme.ratio": number / 100})
        for number in range(40)
    )
    many = shown(Results(tuple(runs), ("scheme.ratio",)), sweep)
    names = [curve["hovertext"][0] for curve in lines(many, "plot-accuracy")]
    wanted = sorted(number for number in range(40) if number * 7 % 40 >= 20)
    assert len(names) == BEST
    assert [name.split("<br>")[0] for name in names] == [f"pfels, ratio = {number / 100}" for number in wanted]
    assert "Of 40 groups the 20" in many.text
    assert len(many.tables["comparison-table"]) == 41
    assert sum(len(trace["x"]) for trace in lines(many, "plot-front-energy")) == 40


def test_ticks_of_logarithmic_axes() -> None:
    assert powers([0.3, 20]) == [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]
    assert powers([1e9, 5e14, math.inf, 0.0]) == [1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15]
    assert powers([math.nan]) == []
    assert tick_texts([1e-4, 0.5, 100, 1e9]) == ["1e-4", "0.5", "100", "1e9"]


# Equal cost, settings, what failed


def test_accuracy_at_the_same_energy_and_rounds(comparison: Path, page: Page) -> None:
    head = [cell.text for cell in page.tables["at-budget-table"][0]]
    accuracy, spent = of_traces(comparison, "test_accuracy"), of_traces(comparison, "energy_j").cumsum(axis=2)
    budget = spent[[PFELS, PDP], :, -1].min()  # the ideal link sets no budget
    (heading,) = [text for text in head if text.startswith("at energy")]
    for row, found in enumerate(numbers(page, "at-budget-table", heading)):
        paid = (spent[row] <= budget).sum(axis=1)
        wanted = [values[count - 1] if count else math.nan for values, count in zip(accuracy[row], paid, strict=True)]
        assert found == pytest.approx(np.mean(wanted), nan_ok=True)
    assert numbers(page, "at-budget-table", "at 4 rounds") == pytest.approx(accuracy[:, :, -1].mean(axis=1))


def test_costs_of_the_target(comparison: Path, page: Page) -> None:
    accuracy, energy = of_traces(comparison, "test_accuracy"), of_traces(comparison, "energy_j").cumsum(axis=2)
    target = 0.9 * accuracy[:, :, -1].mean(axis=1).max()
    assert f"Cost of reaching {100 * target:.1f}% accuracy" in page.text
    seeds = page.column("to-target-table", "seeds that do")
    for row, found in enumerate(numbers(page, "to-target-table", "energy (normalised)")):
        there = accuracy[row] >= target
        reached = [spent[hit][0] if hit.any() else math.inf for spent, hit in zip(energy[row], there, strict=True)]
        assert found == pytest.approx(np.mean(reached))
        assert seeds[row].text == f"{there.any(axis=1).sum()} of 2"
    assert page.column("to-target-table", "bits")[PFELS].text == "-"


def test_settings_that_differ_are_columns_and_the_others_are_folded(page: Page) -> None:
    head, *rows = [[cell.text for cell in row] for row in page.tables["settings-table"]]
    assert head[0] == "group"
    assert {"scheme.name", "local.learning_rate"} <= set(head)
    assert not {"run.seed", "run.rounds"} & set(head)
    assert rows[PDP][head.index("local.learning_rate")] == "0.02"
    assert "run.rounds = 4\n" in page.text
    assert "run.seed =" not in page.text
    assert "scheme.name =" not in page.text


def test_failed_and_missing_points_are_told(swept: Page, page: Page) -> None:
    assert f"failed: {CAUSE}" in swept.text
    assert "1 point of the sweep not yet run" in swept.text
    assert "not yet run" not in page.text
    assert page.text.count("Not tuned:") == 1
    assert "as the papers do (<code>airfl tune</code>)." in page.source
    assert page.text.index("Not tuned:") < page.text.index("accuracy %")
    assert "Not tuned:" not in swept.text  # one scheme is compared with itself


def test_the_commands_shown_are_accepted(comparison: Path, sweep: Path) -> None:
    """`airfl export` takes one folder, the others take all of them."""
    found = Page(html_page(PageView(read_results([comparison, sweep]), (comparison, sweep))))
    assert f"airfl figures {comparison} {sweep} --out FOLDER\n" in found.source
    for number, folder in enumerate((comparison, sweep), 1):
        assert f"airfl export {folder} --to csv --out FOLDER-{number}" in found.source
    assert f"airfl export {sweep} --to csv --out FOLDER<" in shown(read_results(sweep), sweep).source


def test_a_run_broken_off_before_an_evaluation(sweep: Path) -> None:
    """Nothing is known of its accuracy; the page says what is."""
    run = summarised(read_results(sweep).runs[0], test_accuracy=math.nan, status="failed")
    course = {name: values[:0] for name, values in run.digest.course.items()}
    broken = replace(run, digest=replace(run.digest, course=course))
    found = shown(Results((broken,), ("scheme.ratio",)), sweep)
    assert "1 failed run: taken as far as the trace goes, with accuracy and ε of the run at the last ev" in found.text
    assert "Not drawn, as there is no round at which all seeds were evaluated: pfels, ratio = 0.1." in found.text
    assert "Pareto fronts" not in found.text
    (epsilon,) = numbers(found, "comparison-table", "ε run")
    assert epsilon > 0


def test_a_group_without_a_curve_is_named(comparison: Path) -> None:
    """As one of which a seed has failed before its first evaluation."""
    runs = read_results(comparison).runs
    first, second = [run for run in runs if run.label == LABELS[PDP]]
    course = {name: values[:0] for name, values in second.digest.course.items()}
    broken = replace(second, digest=replace(second.digest, course=course))
    line = "no round at which all seeds were evaluated: WFL-PDP."
    for others in ((), tuple(run for run in runs if run.label != LABELS[PDP])):
        found = shown(Results((*others, first, broken)), comparison)
        assert line in found.text
        assert bool(others) is any(attributes.get("id") == "plot-loss" for _, attributes in found.elements)


def test_the_notes_are_of_all_seeds(comparison: Path) -> None:
    """Not only of the first: which runs were stopped or have failed, and what the columns mean."""
    first, second = [run for run in read_results(comparison).runs if run.label == LABELS[PDP]]
    stopped = summarised(first, stopped_early="because", rounds=2)
    failed = summarised(second, status="failed", best_accuracy=0.99)
    ideal = next(run for run in read_results(comparison).runs if run.label == LABELS[IDEAL])
    found = shown(Results((stopped, failed, ideal)), comparison)
    assert "Stopped early: WFL-PDP after 2 rounds (1 of 2 runs)." in found.text
    assert "last evaluated round: WFL-PDP (1 of 2 failed)." in found.text
    assert "best: the highest of all evaluated rounds, selected on the test set" in found.text
    assert found.text.count("Not tuned:") == 1
    assert "Mean over 2 seeds" not in found.text  # the page has intervals where the terminal has deviations


def test_energies_of_different_units_are_not_compared(comparison: Path) -> None:
    first, *rest = read_results(comparison).runs
    found = shown(Results((summarised(first, energy_units="J"), *rest)), comparison)
    assert "Energies have different units" in found.text
    assert "energy" not in found.figure("plot-accuracy")["choices"]
    assert not any(attributes.get("id") == "plot-front-energy" for _, attributes in found.elements)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25))
def test_the_front_is_what_no_other_beats(points: list[tuple[int, int]]) -> None:
    """Nor is it what is not finite."""
    found = front([*(cost for cost, _ in points), math.inf, 0], [*(gain for _, gain in points), 9, math.nan])
    wanted = [
        place
        for place, (cost, gain) in enumerate(points)
        if not any(c <= cost and g >= gain and (c, g) != (cost, gain) for c, g in points)
    ]
    assert sorted(found) == wanted
    assert [points[place][0] for place in found] == sorted(points[place][0] for place in found)


# Markup


def run_by(page: Page) -> list[str]:
    """The scripts that a browser runs."""
    return [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]


def test_what_users_write_stays_text(page: Page, swept: Page) -> None:
    names = {name for name, _ in page.elements} | {name for name, _ in swept.elements}
    assert "img" not in names
    assert SCRIPT in page.text
    for found in (page, swept):
        run = run_by(found)
        assert len(run) == 2  # plotly's and the page's own
        assert "<script>alert" not in found.source
        assert "<img" not in found.source.replace(run[0], "")
        assert not any(key.startswith("on") for _, attributes in found.elements for key in attributes)
    # Plotly reads a few elements in texts as markup.
    texts = lines(page, "plot-accuracy")[PFELS]["hovertext"]
    assert str(texts[0]).startswith("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;b&gt;bold&lt;/b&gt;<br>")


def test_data_for_the_script_holds_no_markup() -> None:
    value = {"a": "</script><!-- & \u2028", "b": [None, 1.5]}
    text = environment().from_string("{{ value | tojson }}").render(value=value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


def test_nothing_is_fetched_and_no_other_script_may_run(page: Page) -> None:
    for name, attributes in page.elements:
        assert "src" not in attributes, name
        assert attributes.get("href", "#").startswith("#"), name  # type: ignore[union-attr]
    assert "@import" not in page.source.partition("</style>")[0]
    policies = [about for _, about in page.elements if about.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    sums = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run_by(page)]
    assert str(policies[0]["content"]).startswith(
        "default-src 'none'; script-src " + " ".join(f"'sha256-{one}'" for one in sums) + ";"
    )


def test_every_plot_has_a_place_and_names_are_there_once(page: Page, swept: Page) -> None:
    for found in (page, swept):
        names = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
        assert len(names) == len(set(names))
        plots = {attributes["data-plot"] for attributes, _ in found.scripts if "data-plot" in attributes}
        targets = {str(attributes["href"])[1:] for name, attributes in found.elements if name == "a"}
        assert plots | targets <= set(names)


# Where it is written


def test_the_command_writes_beside_the_runs_and_replaces_its_own(sweep: Path, capsys: Any) -> None:
    target = sweep / "report.html"
    report([sweep])
    first = target.read_bytes()
    target.write_bytes(first + b"<!-- older -->")
    report([sweep])
    assert target.read_bytes() == first
    assert capsys.readouterr().err == f"written: {target}\n" * 2
    assert sorted(path.name for path in sweep.glob("*report*")) == ["report.html"]
    assert sorted(path.name for path in sweep.glob(".*report*")) == []


def test_several_folders_and_a_new_place(sweep: Path, comparison: Path, tmp_path: Path) -> None:
    target = write_page([sweep, comparison], tmp_path / "new" / "all.html")
    assert len(Page(target.read_text()).tables["comparison-table"]) == 1 + len(RATIOS) + len(LABELS)
    target.write_text("<html>mine</html>")
    with pytest.raises(UserError, match=r"all\.html: already exists and is not a report written by airfl"):
        write_page(sweep, target)
    assert target.read_text() == "<html>mine</html>"


def test_a_failure_leaves_the_earlier_report(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = write_page(sweep, tmp_path / "report.html")
    before = target.read_bytes()

    def fail(self: Path, to: Path) -> Path:
        raise OSError("disk")

    monkeypatch.setattr(page_module.Path, "replace", fail)
    with pytest.raises(OSError, match="disk"):
        write_page(sweep, target)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_refusals(sweep: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "file").write_text("")
    for folder, out, message in (
        (empty, None, r"holds no run"),
        (tmp_path / "none", None, r"no such folder; check the path"),
        (tmp_path / "file", None, r"file: a file, not a folder; give the folder of a run"),
        (sweep, empty, r"is a folder.*report\.html"),
        (sweep, tmp_path / "file" / "report.html", r"is a file; .* must be a folder"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            write_page(folder, out)
        assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]
    assert not any(empty.iterdir())
