"""All pairs of different sweeps read together: each table row and plot point against its own run."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
import pytest

from airfl.analysis.results import Results, read_results
from airfl.analysis.results.result import Result
from airfl.analysis.results.sweep_folder import Entry, Listing, write_listing
from airfl.analysis.results.tidy import write
from airfl.cli.figures import figures
from airfl.config import Row
from airfl.errors import UserError
from airfl.report.page.page import html_page
from airfl.report.page.view import PageView
from airfl.report.paper import possible_figures
from airfl.report.paper.figures import find_figure
from airfl.report.results import plain_results, results_table
from airfl.study.compare import compare
from tests.conftest import small_settings
from tests.figures import panels, sweep
from tests.report_page import Page
from tests.small_data import run

BASE = ("run.rounds=2", "run.evaluate_every=1", "run.devices=40", "run.selected=4", "local.steps=1")
BASE += ("scheme.ratio=0.3", "power.max_snr_db=10")  # where no sweep changes them
NAMES = {"pfels": "PFELS", "fedavg": "FedAvg", "fed-smp-randk": "Fed-SMP-randk", "wfl-p": "WFL-P"}
# What a scheme has of what is swept here, written down by hand.
HAS = {key: {"pfels", "fed-smp-randk"} for key in ("scheme.ratio", "privacy.epsilon")}
HAS["digital.gap_db"] = {"fedavg", "fed-smp-randk"}
SYMBOLS = {"p": "scheme.ratio", "ε": "privacy.epsilon", "SNR": "power.max_snr_db", "η": "local.learning_rate"}
SYMBOLS |= {"N": "run.devices", "gap db": "digital.gap_db", "scheme": "scheme.name", "link": "link"}
SYMBOLS |= {key.rpartition(".")[2]: key for key in SYMBOLS.values() if "." in key and key != "scheme.name"}

# What is the same in all of a sweep's runs, what is swept, and the seeds.
SWEEPS: dict[str, tuple[tuple[str, ...], dict[str, Sequence[Any]], tuple[int, ...]]] = {
    "pfels": ((), {"scheme.ratio": (0.1, 0.3), "power.max_snr_db": (0, 10)}, (0, 1)),
    "digital": (("scheme.name=fedavg", "scheme.link=digital"), {"power.max_snr_db": (0.0, 10.0)}, (0, 1)),
    "ideal": (("scheme.name=fedavg",), {"local.learning_rate": (0.02, 0.1)}, (0, 1)),
    "private": (("run.devices=50",), {"privacy.epsilon": (0.5, math.inf)}, (0, 1)),
    "packets": (("scheme.name=fed-smp-randk",), {"scheme.ratio": (0.1, 0.3), "digital.gap_db": (0.0, 3.0)}, (5,)),
    "schemes": ((), {"scheme.name": ("wfl-p", "pfels"), "scheme.ratio": (0.2, 0.5)}, (0, 1)),
}
ROWS = {"Air": "pfels", "Bits": "fed-smp-randk", "single": "wfl-p"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sweeps, a comparison of two rows and a single run."""
    root = tmp_path_factory.mktemp("pooled")
    for name, (fixed, swept, seeds) in SWEEPS.items():
        points = [dict(zip(swept, values, strict=True)) for values in itertools.product(*swept.values())]
        sweep(root / name, points, seeds, *BASE, *fixed)
    settings = (("Air", ()), ("Bits", ("scheme.name=fed-smp-randk", "local.learning_rate=0.02")))
    compare([Row(label, small_settings(*BASE, *overrides)) for label, overrides in settings], 2, root / "rows")
    run(small_settings(*BASE, "scheme.name=wfl-p", "run.seed=7"), root / "single")
    return {name: root / name for name in (*SWEEPS, "rows", "single")}


PAIRS = list(itertools.combinations((*SWEEPS, "rows", "single"), 2))
# Of every sweep several, and of every way in which two can be alike one: the scheme, the link, an axis, a point, rows.
SHORT = {
    *(("pfels", "digital"), ("pfels", "ideal"), ("pfels", "private"), ("pfels", "packets"), ("pfels", "schemes")),
    *(("digital", "ideal"), ("digital", "packets"), ("ideal", "single"), ("private", "schemes"), ("packets", "rows")),
    *(("schemes", "single"), ("rows", "single")),
}


class Truth:
    """A run by its own trace: scheme, link, settings, accuracy (%) of each round, epsilon in the end."""

    def __init__(self, file: Path) -> None:
        self.folder = file.parent
        with h5py.File(file) as trace:
            self.config = json.loads(trace.attrs["config"])
            self.link = str(trace.attrs["link"])
            self.accuracy, self.epsilon = 100 * trace["test_accuracy"][:], float(trace["epsilon"][-1])
        self.scheme, self.seed = str(self.config["scheme"]["name"]), self.config["run"]["seed"]

    def get(self, key: str) -> Any:
        """The value of a dotted key, None where the scheme has no such thing."""
        if key in ("link", "scheme.link"):
            return self.link
        if key in HAS and (self.scheme not in HAS[key] or (key.startswith("digital") and self.link != "digital")):
            return None
        section, _, name = key.partition(".")
        value = self.config[section][name]
        return math.inf if value == "inf" else value

    def says(self, wanted: Mapping[str, str]) -> bool:
        """Whether it has all of these values, as texts."""
        return all(text == str(self.get(key)) or number(text) == self.get(key) for key, text in wanted.items())

    def same(self, other: Truth) -> bool:
        """Whether they differ in their seed only, as far as they have the settings."""
        keys = ("scheme.name", "link", "power.max_snr_db", "local.learning_rate", "run.devices", *HAS)
        return all(self.get(key) == other.get(key) for key in keys)


def number(text: str) -> float:
    try:
        return math.inf if text == "∞" else float(text)
    except ValueError:
        return math.nan


class Pool(NamedTuple):
    """Runs that are read together, and each by itself."""

    results: Results
    truths: list[Truth]

    def of(self, runs: Sequence[Result]) -> list[Truth]:
        """Of each, what its trace says."""
        by_folder = {truth.folder: truth for truth in self.truths}
        return [by_folder[run.folder] for run in runs]


@pytest.fixture(
    scope="module",
    params=[pytest.param(pair, id="+".join(pair), marks=[] if pair in SHORT else pytest.mark.full) for pair in PAIRS],
)
def pool(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Pool:
    both = [folders[name] for name in request.param]
    return Pool(read_results(both), [Truth(file) for folder in both for file in sorted(folder.rglob("trace.h5"))])


def settings_in(text: str) -> dict[str, str]:
    """The settings that a label names: `p = 0.3`, `SNR = 10 dB`, `analog link`, the scheme's name, a row's."""
    found: dict[str, str] = {}
    for part in text.split(", "):
        name, equals, value = part.partition(" = ")
        if equals:
            found[SYMBOLS[name]] = value.removesuffix(" dB")
        elif part.endswith(" link"):
            found["link"] = part.removesuffix(" link")
        else:
            schemes = [scheme for scheme, written in NAMES.items() if part in (scheme, written)]
            found |= {"scheme.name": schemes[0]} if schemes else {"row": part}
    return found


def named_groups(text: str, pool: Pool) -> list[list[Truth]]:
    """The runs that a label is for; the scheme is among what it says where several are there."""
    wanted, truths = settings_in(text), pool.truths
    row = wanted.pop("row", None)
    if len({truth.scheme for truth in truths}) > 1:
        assert "scheme.name" in wanted, text
    found = [truth for truth in truths if truth.says(wanted)]
    if row is not None:
        assert wanted.get("scheme.name", ROWS[row]) == ROWS[row], text
        found = [truth for truth in found if truth.scheme == ROWS[row] and in_rows(truth, row)]
    elif any(in_rows(truth, name) for truth in truths for name in ROWS):
        found = [truth for truth in found if not any(in_rows(truth, name) for name in ROWS)]
    assert found, text
    return by_settings(found)


def in_rows(truth: Truth, row: str) -> bool:
    return truth.folder.name == row if row == "single" else truth.folder.parent.name.lower() == row.lower()


def by_settings(truths: Sequence[Truth]) -> list[list[Truth]]:
    """Runs that differ in their seed only, a seed once."""
    groups: list[list[Truth]] = []
    for truth in truths:
        group = next((group for group in groups if group[0].same(truth)), None)
        if group is None:
            groups.append([truth])
        elif truth.seed not in {one.seed for one in group}:
            group.append(truth)
    return groups


def last(group: Sequence[Truth]) -> float:
    return float(np.mean([truth.accuracy[-1] for truth in group]))


def check_curve(label: str, y: Any, pool: Pool) -> None:
    """The accuracy of each round over the seeds of the one group that the label names."""
    (group,) = named_groups(label, pool)
    np.testing.assert_allclose(y, np.mean([truth.accuracy for truth in group], axis=0), rtol=1e-5, err_msg=label)


# The tables


def test_every_run_is_in_one_group_of_its_like(pool: Pool) -> None:
    inside: list[Truth] = []
    for group in pool.results.groups:
        first, *rest = members = pool.of((*group.runs, *group.repeats))
        assert all(first.same(other) for other in rest), group.name
        assert len({run.seed for run in group.runs}) == len(group.runs), group.name
        inside += members
    assert len(inside) == len(set(inside)) == len(pool.truths)
    assert len({group.name for group in pool.results.groups}) == len(pool.results.groups)
    # Of a series that no row names, no point stands apart under another name.
    assert {group.label for group in pool.results.groups} <= {"", *ROWS}


def test_what_differs_is_a_column_and_what_is_not_there_is_empty(pool: Pool, tmp_path: Path) -> None:
    """In the files, in the plain results and in the terminal's table."""
    results, truths = pool
    parquet, csv = write(results.frame(), tmp_path / "tables")
    in_order = pool.of([run for group in results.groups for run in (*group.runs, *group.repeats)])
    for table in (pd.read_parquet(parquet), pd.read_csv(csv)):
        for line, truth in zip(table.to_dict("records"), in_order, strict=True):
            assert (line["scheme"], line["link"]) == (truth.scheme, truth.link)
            assert 100 * line["test_accuracy"] == pytest.approx(truth.accuracy[-1])
            for key in results.axes:
                check_cell(line[key], truth.get(key))
    for what in ("scheme.name", "scheme.link"):
        assert (what in results.axes) == (len({truth.get(what) for truth in truths}) > 1)
    for found in plain_results(results)["groups"]:
        (group,) = [group for group in results.groups if group.name == found["name"]]
        members = pool.of(group.runs)
        for key, value in found["values"].items():
            check_cell(value, members[0].get(key))
        assert 100 * found["figures"]["test_accuracy"]["mean"] == pytest.approx(last(members))
    columns = {str(column.header): list(map(str, column.cells)) for column in results_table(results, "").columns}
    firsts = pool.of([group.runs[0] for group in results.groups])
    for what in ("scheme", "link"):
        if len({getattr(truth, what) for truth in truths}) > 1:
            assert columns[what] == [getattr(truth, what) for truth in firsts]
    if "ratio" in columns:
        ratios = [truth.get("scheme.ratio") for truth in firsts]
        assert columns["ratio"] == ["" if ratio is None else str(ratio) for ratio in ratios]


def check_cell(found: Any, wanted: Any) -> None:
    if wanted is None:
        assert found is None or found != found  # empty, or nan
    else:
        assert found == wanted or float(found) == float(wanted)


# The papers' figures


def drawn(name: str, results: Results, why: str | None = None) -> list[tuple[str, str, np.ndarray, np.ndarray]] | None:
    """(what stands below, label, x, y) of every line with a label in the figure's panels; None where the figure is left
    out for a reason that matches `why`."""
    try:
        axes = panels(name, results)
    except UserError as error:
        if why is None or not re.search(why, str(error)):
            raise
        return None
    return [
        (axis.get_ylabel(), str(line.get_label()), np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata()))
        for axis in axes
        for line in axis.lines
        if not str(line.get_label()).startswith("_")
    ]


def check_line(label: str, key: str, x: np.ndarray, y: np.ndarray, pool: Pool) -> None:
    """All points of the series that the label names, and none of another, in the order of the swept value."""
    found = named_groups(label, pool)
    points = sorted((float(group[0].get(key)), last(group)) for group in found if finite(group[0].get(key)))
    assert len({x for x, _ in points}) == len(points), f"{label} is for more than one series"
    np.testing.assert_allclose(x, [point[0] for point in points], err_msg=label)
    np.testing.assert_allclose(y, [point[1] for point in points], rtol=1e-5, err_msg=label)


def finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def test_lines_against_a_number_go_through_the_points_of_one_series(pool: Pool) -> None:
    results, truths = pool
    tried = 0
    for name in possible_figures(results):
        key = find_figure(name).options.get("key")
        why = "needs runs swept over|lines are too many"
        lines = None if key is None else drawn(name, results, why)
        if lines is None:
            continue
        tried += 1
        seen, levels = [], []
        for _, label, x, y in lines:
            if list(x) == [0, 1] and len(set(y)) == 1:
                assert any(last(group) == pytest.approx(y[0]) for group in named_groups(label, pool)), label
                levels.append(round(float(y[0]), 6))
            else:
                check_line(label, key, x, y, pool)
                seen += list(zip(x, np.round(y, 6), strict=True))
        groups = [group for group in by_settings(truths) if finite(group[0].get(key))]
        moving = [(float(group[0].get(key)), round(last(group), 6)) for group in groups]
        assert all(point in seen or point[1] in levels for point in moving), name
    assert tried or not {key for key in results.axes if len({finite(run.values.get(key)) for run in results.runs}) > 1}


def test_learning_curves_are_those_of_the_runs_they_name(pool: Pool) -> None:
    for what, label, x, y in drawn("learning-rounds", pool.results, "lines are too many") or []:
        assert len(named_groups(label, pool)) == 1
        if "accuracy" in what:
            np.testing.assert_allclose(x, [1, 2])
            check_curve(label, y, pool)


def test_accuracy_against_privacy_joins_a_series_in_the_order_of_what_is_swept(pool: Pool) -> None:
    refused = "finite epsilon|lines are too many"
    for _, label, x, y in drawn("privacy-accuracy", pool.results, refused) or []:
        if not len(x) or label.startswith(("holds", "claimed")):
            continue
        name, infinite, _ = label.partition(", ε = ∞")
        if infinite and list(x) == [0, 1]:  # a level: the best of a series without privacy
            reached = [last(group) for group in named_groups(name, pool) if not 0 < group[0].epsilon < math.inf]
            assert y[0] == pytest.approx(max(reached))
            assert label.endswith(f"(best of {len(reached)})") or len(reached) == 1
            continue
        found = named_groups(label, pool)
        keys = [key for key in pool.results.axes if len({str(group[0].get(key)) for group in found}) > 1]
        assert len(keys) < 2, f"{label} joins what differs in {keys}"
        found.sort(key=lambda group: float(group[0].get(keys[0])) if keys else 0.0)
        points = [(max(truth.epsilon for truth in group), last(group)) for group in found]
        wanted = [point if 0 < point[0] < math.inf else (math.nan, math.nan) for point in points]
        np.testing.assert_allclose(np.stack([x, y], axis=1), wanted, err_msg=label)


# The report's page


def test_the_page_draws_each_point_at_its_run(pool: Pool) -> None:
    folders = tuple({run.source: None for run in pool.results.runs if run.source is not None})
    view = PageView(pool.results, folders)
    page = Page(html_page(view))
    plots = {attributes.get("id") for _, attributes in page.elements}
    for place, key in enumerate(pool.results.axes):
        lines = page.figure(f"plot-swept-{place}")["data"] if f"plot-swept-{place}" in plots else []
        for line in lines:
            if line.get("hovertext"):
                check_line(line["hovertext"][0].split("<br>")[0], key, np.array(line["x"]), np.array(line["y"]), pool)
    for curve in page.figure("plot-accuracy")["data"]:
        if curve.get("hovertext"):
            check_curve(curve["hovertext"][0].split("<br>")[0], curve["y"], pool)
    for point_set in page.figure("plot-front-energy")["data"]:
        for text, y in zip(point_set.get("hovertext") or [], point_set["y"], strict=False):
            (group,) = named_groups(text.split("<br>")[0], pool)
            assert y == pytest.approx(last(group), rel=1e-5)


# The pair of the report


def test_pfels_over_two_settings_with_digital_fedavg_over_one(folders: dict[str, Path], tmp_path: Path) -> None:
    """PFELS keeps its point at 0.3, though FedAvg's settings file says 0.3 too; FedAvg has no ratio."""
    results = read_results([folders["pfels"], folders["digital"]])
    assert results.axes == ("scheme.name", "scheme.link", "scheme.ratio", "power.max_snr_db")
    digital = [f"scheme = fedavg, link = digital, max_snr_db = {snr}" for snr in (0, 10)]
    assert [group.name for group in results.groups[-2:]] == digital
    assert {group.label for group in results.groups} == {""}
    found = {label: x.tolist() for _, label, x, _ in drawn("accuracy-ratio", results) or []}
    assert found == {
        "PFELS, analog link, SNR = 0 dB": [0.1, 0.3],
        "PFELS, analog link, SNR = 10 dB": [0.1, 0.3],
        "FedAvg, digital link, SNR = 0 dB": [0, 1],  # of the axis: a level
        "FedAvg, digital link, SNR = 10 dB": [0, 1],
    }
    figures([folders["pfels"], folders["digital"]], out=tmp_path / "f", only="accuracy-ratio,accuracy-snr")
    assert (tmp_path / "f" / "accuracy-snr.pdf").exists()


def test_the_order_of_folders_changes_no_group(folders: dict[str, Path]) -> None:
    found = [read_results([folders[name] for name in names]) for names in (("pfels", "packets"), ("packets", "pfels"))]
    one, other = ({frozenset(run.folder for run in group.runs) for group in results.groups} for results in found)
    assert one == other


def test_a_settings_value_counts_where_the_seeds_do_not_collide(folders: dict[str, Path], tmp_path: Path) -> None:
    """Runs of other seeds and other settings are no further seeds of the same thing."""
    more = tmp_path / "more"
    run(small_settings(*BASE, "local.learning_rate=0.3", "run.seed=9"), more / "0-9")
    write_listing(Listing(more, (Entry("0-9", "", {"scheme.ratio": 0.3, "power.max_snr_db": 10}, 9),)))
    results = read_results([folders["pfels"], more])
    assert "local.learning_rate" in results.axes
    assert [len(group.runs) for group in results.groups] == [2] * 4 + [1]
