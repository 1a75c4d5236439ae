"""Tables and sentences made from summaries."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from airfl.errors import UserError
from airfl.report.comparison import find_runs
from airfl.report.figures import draw, read_curves
from airfl.report.summary import Summary, figure, summarise
from airfl.report.table import TableRow, cells, csv_table, markdown_table
from airfl.simulation import run
from tests.conftest import small_settings

PRIVATE = Summary(
    scheme="pfels",
    seed=0,
    status="complete",
    rounds=150,
    test_accuracy=0.78,
    test_loss=0.6,
    energy=6.28e9,
    resource_elements=1_145_250,
    air_time_s=0.03214,
    uplink_bits=0,
    delta=1e-3,
    epsilon_paper=1.5,
    epsilon_round=176.667,
    epsilon=10_110.9,
    epsilon_as_poisson=240.8,
)
IDEAL = replace(PRIVATE, scheme="fedavg", epsilon_paper=math.nan, epsilon_round=math.inf, epsilon=math.inf)


def test_a_row_of_one_seed_and_of_two() -> None:
    assert cells(TableRow("PFELS", [PRIVATE]))[:5] == ["PFELS", "78.0", "6.28e9", "1,145,250", "0.032"]
    two = TableRow("PFELS", [PRIVATE, replace(PRIVATE, test_accuracy=0.80)])
    assert cells(two)[1] == "79.0 ± 1.4"  # sample standard deviation


def test_csv_keeps_full_precision_and_infinity() -> None:
    rows = list(csv.DictReader(csv_table([TableRow("a", [PRIVATE]), TableRow("b", [IDEAL])]).splitlines()))
    assert float(rows[0]["energy"]) == PRIVATE.energy
    assert (rows[1]["epsilon"], rows[1]["epsilon_paper"]) == ("inf", "nan")


def test_markdown_has_a_line_a_row_and_its_notes() -> None:
    text = markdown_table([TableRow("a", [PRIVATE]), TableRow("b", [IDEAL])])
    assert text.count("\n| ") == 3
    assert "delta 0.001, client level" in text


def test_a_broken_claim_is_one_sentence_with_the_true_figures() -> None:
    sentence = PRIVATE.broken_claim()
    assert sentence is not None
    for word in ("1.5", "176.7", "10,111", "240.8", "0.001", "client"):
        assert word in sentence
    assert IDEAL.broken_claim() is None  # nothing claimed
    assert replace(PRIVATE, epsilon_round=1.4).broken_claim() is None


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "-"), (math.inf, "inf"), (1.23456, "1.235"), (12_345.6, "12,346"), (0.0, "0")]
)
def test_figures_for_people(value: float, text: str) -> None:
    assert figure(value) == text


def test_summary_and_curves_are_sums_over_the_trace(tmp_path: Path) -> None:
    done = run(small_settings("run.rounds=4", "run.evaluate_every=2"), tmp_path / "a")
    total, curves = done.summary(), read_curves("a", [tmp_path / "a"])
    with done.trace() as trace:
        assert total.energy == pytest.approx(float(trace["energy_j"].sum()))
        assert total.resource_elements == int(trace["resource_elements"].sum())
        assert total.test_accuracy == float(trace["test_accuracy"][-1])
        assert total.epsilon_round == float(trace["epsilon_round"].max())
    assert curves.rounds.tolist() == [2, 4]
    assert curves.energy[0, -1] == pytest.approx(total.energy)
    np.testing.assert_allclose(curves.accuracy[0, -1], 100 * total.test_accuracy)


def test_runs_are_found_and_what_is_none_is_refused(tmp_path: Path) -> None:
    run(small_settings(), tmp_path / "some" / "b")
    run(small_settings(), tmp_path / "some" / "a")
    assert [label for label, _ in find_runs([tmp_path / "some"])] == ["a", "b"]
    assert find_runs([tmp_path / "some" / "b"]) == [("b", [tmp_path / "some" / "b"])]
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "rows.json").write_text('{"label": 3}')
    with pytest.raises(UserError, match=r"rows\.json: not a list of rows"):
        find_runs([tmp_path / "rows"])


def test_counts_near_the_end_of_64_bits_do_not_wrap() -> None:
    import xarray

    with run(small_settings("scheme.name=fedavg")).trace() as trace:
        large = trace.load().assign(resource_elements=xarray.full_like(trace["resource_elements"], 2**62))
    assert summarise(large).resource_elements == 2 * 2**62


def test_a_figure_draws_a_single_point_and_an_ideal_link_by_itself(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    run(small_settings("scheme.name=fedavg", "run.evaluate_every=2"), tmp_path / "a")
    canvas = Figure()
    draw(canvas, [read_curves("a", [tmp_path / "a"])])
    for axis in canvas.axes:
        (line,) = axis.lines
        assert line.get_marker() == "o"
        assert len(line.get_xdata()) == 1
    assert float(canvas.axes[1].lines[0].get_xdata()[0]) > 1e10  # its own energy, not a level


def test_the_notes_say_in_which_units_energies_are() -> None:
    physical = replace(PRIVATE, energy_units="J")
    assert "energy: normalised, sum of ||x||^2 over" in markdown_table([TableRow("a", [PRIVATE])])
    assert "energy: J, sum of power x air time over" in markdown_table([TableRow("a", [physical])])
    both = markdown_table([TableRow("a", [PRIVATE]), TableRow("b", [physical])])
    assert "||x||^2 or J, sum of" in both


def test_a_charged_downlink_is_in_the_air_time() -> None:
    ideal, charged = (run(small_settings(f"grid.downlink={flag}")) for flag in ("false", "true"))
    with charged.trace() as trace:
        downlink_s = float(trace["downlink_latency_s"].sum())
    assert downlink_s > 0
    assert charged.summary().air_time_s == pytest.approx(ideal.summary().air_time_s + downlink_s)


def test_energies_in_joules_are_named_so(tmp_path: Path) -> None:
    done = run(small_settings("channel.units=physical", "channel.mean_gain=1e-5"), tmp_path / "run")
    assert done.summary().energy_units == "J"
    assert read_curves("joules", [tmp_path / "run"]).energy_units == "J"
