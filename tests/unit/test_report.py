"""Tables and sentences generated from summaries."""

import csv
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.stats
import typer
import xarray
from matplotlib.figure import Figure
from rich.console import Console
from typer.testing import CliRunner

from airfl.analysis.results.find import find_runs
from airfl.cli.runs import plot as plot_command
from airfl.core.summary import Summary, summarise
from airfl.errors import UserError
from airfl.report import privacy_figure
from airfl.report.comparison import copy_report, write_figures
from airfl.report.figures import LearningCurves, curves_of, draw, read_rounds
from airfl.report.privacy_figure import PrivacyCurves, off_scale
from airfl.report.table import COLUMNS, TableRow, cells, csv_table, markdown_table, notes, terminal_table
from airfl.runtime.numbers import counted, figure, scientific
from airfl.storage.trace import open_trace
from tests.conftest import small_settings
from tests.small_data import run

COSTS = {"energy": 6.28e9, "resource_elements": 1_145_250, "air_time_s": 0.03214, "uplink_bits": 0}
CLAIM = {"epsilon_paper": 1.5, "epsilon_round": 176.667, "accountant": "RDP", "delta": 1e-3}
OF_THE_RUN = {"epsilon": 10_110.9, "epsilon_as_poisson": 240.8, "epsilon_at_least": 1_402.3}
OF_A_ROUND = {"epsilon_round_at_least": 170.2}
LEARNT: dict[str, Any] = {"status": "complete", "rounds": 150, "test_accuracy": 0.78, "test_loss": 0.6}
PRIVATE = Summary(scheme="pfels", seed=0, **LEARNT, **COSTS, **CLAIM, **OF_THE_RUN, **OF_A_ROUND)
TUNED = replace(PRIVATE, tuned=True)
WITHOUT_BOUND = dict.fromkeys(("epsilon_round", *OF_THE_RUN), math.inf)
IDEAL = replace(PRIVATE, scheme="fedavg", claim_scope="none", epsilon_paper=math.nan, **WITHOUT_BOUND)
SPENT = {"epsilon_round": 0.5026, "epsilon": 4.008, "epsilon_as_poisson": 0.4284, "epsilon_at_least": 2.245}
OF_RUN = replace(PRIVATE, scheme="fed-smp-randk", claim_scope="run", epsilon_paper_tables=0.876, **SPENT)
DRAWN = ["claimed for each round", "one round", "run", "run as Poisson", "run at least"]
"""The privacy figure's curves, in the order of its legend."""


def test_a_row_of_one_seed_of_two_and_of_three() -> None:
    first = ["PFELS", "78.0", "-", "0.0", "0", "6.28e9", "1,145,250", "0.032"]
    assert cells(TableRow("PFELS", [PRIVATE]))[: len(first)] == first
    two = TableRow("PFELS", [PRIVATE, replace(PRIVATE, test_accuracy=0.80)])
    assert cells(two)[1] == "78.0; 80.0"  # two numbers are no deviation
    three = TableRow("PFELS", [*two.runs, replace(PRIVATE, test_accuracy=0.82)])
    assert cells(three)[1] == "80.0 ± 2.0"  # sample standard deviation
    assert notes([two]).startswith("Mean over 2 seeds, both values of the accuracy. energy")
    assert notes([three]).startswith("Mean over 3 seeds, ± standard deviation. energy")


def test_the_best_round_stands_beside_the_last_where_it_differs() -> None:
    same, better = replace(PRIVATE, best_accuracy=0.78), replace(PRIVATE, best_accuracy=0.801)
    assert "best" not in markdown_table([TableRow("a", [same]), TableRow("b", [PRIVATE])])
    table = markdown_table([TableRow("a", [same]), TableRow("b", [better])])
    assert table.startswith("|  | accuracy % | best % | energy")
    assert "| b | 78.0 | 80.1 |" in table
    assert "best: the highest of all evaluated rounds" in table


def test_an_ideal_link_without_a_deadline_is_beside_others_for_its_accuracy() -> None:
    """Its costs stay in a table of its own."""
    endless, lossy = replace(IDEAL, waits_for_ever=True), replace(PRIVATE, silent_share=0.125)
    rows = [TableRow("ideal", [endless]), TableRow("a", [lossy])]
    lines = markdown_table(rows).splitlines()
    assert lines[0].startswith("|  | accuracy % | not heard % | energy | resource elements | air time s | bits |")
    assert lines[2].split(" | ")[2:6] == ["0.0", "-", "-", "-"]
    assert lines[3].startswith("| a | 78.0 | 12.5 | 6.28e9 |")
    assert "an ideal link without digital.deadline_s" in notes(rows)
    alone = markdown_table(rows[:1])
    assert scientific(IDEAL.energy) in alone
    assert "deadline" not in alone
    some = TableRow("some", [lossy, replace(lossy, silent_share=0.0), replace(lossy, silent_share=0.1)])
    assert "| 7.5 |" in markdown_table([some])
    assert "not heard" not in markdown_table([TableRow("a", [PRIVATE])])


def test_updates_that_were_not_finite_have_a_column() -> None:
    dropped = replace(PRIVATE, non_finite_share=45 / 18_000)
    table = markdown_table([TableRow("a", [PRIVATE]), TableRow("b", [dropped])])
    assert table.startswith("|  | accuracy % | not finite % | energy")
    assert "| b | 78.0 | 0.25 |" in table
    assert "not finite" not in markdown_table([TableRow("a", [PRIVATE])])


def test_costs_beside_an_ideal_link_stay_in_the_csv() -> None:
    endless, lossy = replace(IDEAL, waits_for_ever=True), replace(PRIVATE, silent_share=0.125)
    rows = [TableRow("ideal", [endless]), TableRow("a", [lossy])]
    assert float(next(csv.DictReader(csv_table(rows).splitlines()))["energy"]) == IDEAL.energy


def test_csv_keeps_full_precision_and_infinity_and_markdown_has_a_line_a_row_and_its_notes() -> None:
    both = [TableRow("a", [PRIVATE]), TableRow("b", [IDEAL])]
    rows = list(csv.DictReader(csv_table(both).splitlines()))
    assert float(rows[0]["energy"]) == PRIVATE.energy
    assert (rows[1]["epsilon"], rows[1]["epsilon_paper"]) == ("inf", "nan")
    assert [row["energy_units"] for row in rows] == ["normalised"] * 2
    text = markdown_table(both)
    assert text.count("\n| ") == 3
    assert "delta 0.001, client level" in text


def test_labels_in_the_notes_start_no_html_element() -> None:
    """As those in the table do not."""
    named = [TableRow("<b>a</b>", [replace(PRIVATE, status="failed")]), TableRow("b", [IDEAL])]
    text = markdown_table(named)
    assert text.count("\\<b>a\\</b>") == text.count("<b>a") == 2
    assert "sum of ||x||^2 over" in text


def test_columns_without_a_figure_are_for_the_csv_only() -> None:
    alone, both = [TableRow("a", [PRIVATE])], [TableRow("a", [PRIVATE]), TableRow("b", [OF_RUN])]
    assert "ε run at least" in markdown_table(alone)
    assert "tables" not in markdown_table(alone)  # neither the column nor its note
    assert "| ε in its tables |" in markdown_table(both)
    assert "in its tables = as printed there" in notes(both)
    row = "| b | 78.0 | 6.28e9 | 1,145,250 | 0.032 | - | 1.5 | 0.876 | 0.5026 | 2.245 | 4.008 | 0.4284 |"
    assert row in markdown_table(both)
    (row,) = csv.DictReader(csv_table(alone).splitlines())
    assert (row["epsilon_paper_tables"], row["epsilon_at_least"]) == ("nan", "1402.3")


def test_the_terminal_table_fits_and_keeps_its_headings_short() -> None:
    console = Console(width=300)
    seeds = [OF_RUN, replace(OF_RUN, test_accuracy=0.80, uplink_bits=3_910_000_000)]
    rows = [TableRow(label, seeds) for label in ("WFL-PDP, server step 0.3", "PFELS with error feedback")]
    with console.capture() as capture:
        console.print(terminal_table(rows, "runs/demo"))
    table = capture.get().split("Mean over")[0].splitlines()
    assert max(len(line.rstrip()) for line in table) <= 150
    assert [line.split()[-1] for line in table if line.startswith(("  WFL", "  PFELS"))] == ["0.4284"] * 2
    assert table[2].split()[-3:] == ["ε", "run", "as"]
    assert table[3].split()[-1] == "Poisson"


def test_the_notes_name_a_fact_once_or_with_its_schemes() -> None:
    agreed = notes([TableRow("a", [PRIVATE]), TableRow("b", [replace(OF_RUN, claim_scope="round")])])
    assert "formula, for each round;" in agreed
    assert agreed.partition(" Not tuned:")[0].endswith(
        "delta 0.001, client level, replace-one, samples of fixed size, observer a third party, ε run by RDP."
    )
    record = replace(OF_RUN, scheme="ldp-sgd", level="record", observer="server", adjacency="add_remove")
    mixed = notes([TableRow("a", [PRIVATE]), TableRow("b", [OF_RUN]), TableRow("c", [record]), TableRow("d", [IDEAL])])
    assert "for each round (pfels) or the run (fed-smp-randk, ldp-sgd);" in mixed
    assert mixed.partition(" Not tuned:")[0].endswith(
        ". delta 0.001, samples of fixed size, ε run by RDP; client level, replace-one, observer a third party "
        "(pfels, fed-smp-randk, fedavg); record level, add/remove, observer the server (ldp-sgd)."
    )


@pytest.mark.parametrize(
    ("first", "second", "untuned"),
    [
        *((PRIVATE, OF_RUN, True), (TUNED, OF_RUN, True), (TUNED, replace(OF_RUN, tuned=True), False)),
        (PRIVATE, replace(PRIVATE, rounds=7), False),  # one scheme
    ],
)
def test_the_notes_say_where_schemes_were_not_tuned(first: Summary, second: Summary, untuned: bool) -> None:
    assert ("Not tuned" in notes([TableRow("a", [first]), TableRow("b", [second])])) == untuned


def test_rows_of_one_scheme_that_differ_are_named_by_their_labels() -> None:
    poisson = replace(PRIVATE, sampling="poisson", adjacency="add_remove", delta=1e-5)
    text = notes([TableRow("fixed", [PRIVATE]), TableRow("drawn", [poisson])])
    assert "delta 0.001, replace-one, samples of fixed size (fixed)" in text
    assert "delta 1e-05, add/remove, Poisson samples (drawn)" in text


def sentence(of: Summary, **changes: Any) -> str:
    return str(replace(of, **changes).broken_claim())


def test_a_broken_claim_is_one_sentence_with_the_true_figures() -> None:
    """Which those for a bound on the channel error are not; without a figure as Poisson there is no word of it."""
    assert sentence(PRIVATE, seed=17) == (
        "pfels, seed 17: epsilon 1.5 is claimed for a round, which does not hold: one round costs between 170.2 and "
        "176.7 and the run between 1,402 and 10,111 (delta 0.001, client level, replace-one; accounted as Poisson the "
        "run is 240.8)"
    )
    assert "one round costs 176.7 and" in sentence(PRIVATE, epsilon_round_at_least=PRIVATE.epsilon_round)
    assert "is not proven: one round costs between 1.4 and 176.7" in sentence(PRIVATE, epsilon_round_at_least=1.4)
    assert "is not proven: one round costs at most 176.7" in sentence(PRIVATE, epsilon_round_at_least=math.nan)
    unproven = "is not proven: one round costs at most 176.7 and the run at most 10,111 ("
    assert unproven in sentence(PRIVATE, csi_error="quantile")
    unsampled = sentence(PRIVATE, epsilon_as_poisson=math.nan, adjacency="add_remove")
    assert unsampled.endswith("(delta 0.001, client level, add/remove)")
    # What is granted in some rounds takes nothing from what others are known to cost.
    assert "which does not hold" in sentence(PRIVATE, beta_tells="granted")
    assert IDEAL.broken_claim() is None  # nothing claimed
    assert replace(PRIVATE, epsilon_round=1.4).broken_claim() is None


def test_a_claim_for_the_run_is_refuted_from_below_or_is_not_proven() -> None:
    refuted = "fed-smp-randk, seed 0: epsilon 1.5 is claimed for the run, which does not hold: it costs "
    unproven = "fed-smp-randk, seed 0: epsilon 1.5 is claimed for the run, which is not proven: it costs "
    for at_least, epsilon, wanted in (
        (2.245, 4.008, refuted + "between 2.245 and 4.008"),
        (4.0081, 4.008, refuted + "4.008"),  # exact, to the digits printed
        (1.4999, 4.008, unproven + "between 1.5 and 4.008"),
        (math.nan, 4.008, unproven + "at most 4.008"),  # cpSGD, or an older trace
        (math.inf, math.inf, refuted + "inf"),
    ):
        assert sentence(OF_RUN, epsilon_at_least=at_least, epsilon=epsilon).split(" (delta")[0] == wanted
    assert replace(OF_RUN, epsilon=1.5, epsilon_at_least=1.2).broken_claim() is None
    assert "it is no bound" in sentence(OF_RUN, epsilon=1.5, epsilon_at_least=1.6)


def test_figures_for_people() -> None:
    values = (math.nan, math.inf, 1.23456, 12_345.6, 0.0)
    assert [figure(value) for value in values] == ["-", "inf", "1.235", "12,346", "0"]
    assert [figure(value) for value in (999e9, 5e22, -5e22)] == ["999,000,000,000", "5.00e22", "-5.00e22"]
    assert [counted(count, "round") for count in (0, 1, 2000)] == ["0 rounds", "1 round", "2,000 rounds"]


def test_summary_and_curves_are_sums_over_the_trace(tmp_path: Path) -> None:
    done = run(small_settings("run.rounds=4", "run.evaluate_every=2"), tmp_path / "a")
    total, curves = done.summary(), curves_of("a", [read_rounds(tmp_path / "a")])
    with done.trace() as trace:
        assert total.energy == pytest.approx(float(trace["energy_j"].sum()))
        assert total.epsilon_at_least == float(trace["epsilon_at_least"][-1])
        assert total.epsilon_as_poisson < total.epsilon_at_least < total.epsilon
        stated = (total.adjacency, total.sampling, total.observer)
        assert stated == ("replace_one", "without_replacement", "third_party")
        assert total.accountant == trace["epsilon"].attrs["accountant"]
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


def test_a_summary_says_who_was_not_heard_and_whether_the_link_waits_for_ever() -> None:
    """By the trace's own slots; nobody is heard where no time is left."""
    late = ("scheme.name=fedavg", "scheme.link=ideal", "run.selected=8")
    waiting, timed = (run(small_settings(*late, *more)).summary() for more in ((), ("digital.deadline_s=1e-6",)))
    assert (waiting.waits_for_ever, waiting.silent_share) == (True, 0)
    assert (timed.waits_for_ever, timed.silent_share) == (False, 1)
    digital = run(small_settings("scheme.name=fedavg", "scheme.link=digital", "digital.deadline_s=0.5"))
    with digital.trace() as trace:
        lost = 1 - (trace["active"].values == 1).sum() / (trace["device_id"].values >= 0).sum()
    assert digital.summary().silent_share == pytest.approx(lost)
    assert 0 < lost < 1
    assert not digital.summary().waits_for_ever


def test_costs_that_differ_a_hundredfold_are_drawn_over_their_logarithm(tmp_path: Path) -> None:
    """A single evaluation is a point; an ideal link by itself has its own energy, not a level."""

    def drawn(*names: str) -> list[Any]:
        canvas = Figure()
        draw(canvas, [curves_of(name, [read_rounds(tmp_path / name)]) for name in names])
        return canvas.axes

    run(small_settings(), tmp_path / "air")
    run(small_settings("scheme.name=fedavg", "scheme.link=digital"), tmp_path / "bits")
    run(small_settings("scheme.name=fedavg", "run.evaluate_every=2"), tmp_path / "ideal")
    for names, scale in ((["air", "bits"], "log"), (["air"], "linear")):
        assert [axis.get_xscale() for axis in drawn(*names)[:3]] == ["linear", scale, scale]
    ideal = drawn("ideal")
    for axis in ideal:
        (line,) = axis.lines
        assert (line.get_marker(), len(line.get_xdata())) == ("o", 1)
    assert float(ideal[1].lines[0].get_xdata()[0]) > 1e10


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_learning_curves_have_the_intervals_of_the_tables(seeds: int) -> None:
    """Student's for three seeds or more, both curves of two; losses far apart are drawn over their logarithm."""
    rounds = np.array([10, 20, 30])
    accuracy = 50.0 + np.random.default_rng(seeds).normal(0, 5, (seeds, 3))
    costs = np.ones((seeds, 3)).cumsum(axis=1)
    low = LearningCurves("low", "analog", "J", rounds, accuracy, accuracy / 100, costs, costs)
    far = replace(low, label="far", loss=np.full((seeds, 3), 1e4))
    canvas = Figure()
    draw(canvas, [low])
    axis = canvas.axes[0]
    np.testing.assert_allclose(axis.lines[0].get_ydata(), accuracy.mean(axis=0))
    assert len(axis.lines) == (3 if seeds == 2 else 1)
    assert len(axis.collections) == (seeds > 2)
    if seeds == 2:
        np.testing.assert_allclose([list(line.get_ydata()) for line in axis.lines[1:]], accuracy)
    if seeds > 2:
        half = scipy.stats.t.ppf(0.975, seeds - 1) * accuracy.std(axis=0, ddof=1) / math.sqrt(seeds)
        ends = axis.collections[0].get_paths()[0].vertices[:, 1]
        assert {float(f"{end:.9g}") for end in ends} == {
            float(f"{end:.9g}") for end in (*(accuracy.mean(axis=0) - half), *(accuracy.mean(axis=0) + half))
        }
    assert canvas.axes[3].get_yscale() == "linear"
    assert all(float(tick).is_integer() for tick in canvas.axes[3].get_xticks())
    wide = Figure()
    draw(wide, [low, far])
    assert wide.axes[3].get_yscale() == "log"
    for lost in (math.nan, math.inf):
        diverged = replace(low, loss=np.full((seeds, 3), lost))
        draw(Figure(), [low, diverged])
        draw(Figure(), [diverged])


def test_counts_near_the_end_of_64_bits_do_not_wrap() -> None:
    with run(small_settings("scheme.name=fedavg")).trace() as trace:
        large = trace.load().assign(resource_elements=xarray.full_like(trace["resource_elements"], 2**62))
    assert summarise(large).resource_elements == 2 * 2**62


def test_the_notes_say_in_which_units_energies_are() -> None:
    physical = replace(PRIVATE, energy_units="J")
    one, other = TableRow("a", [PRIVATE]), TableRow("b", [physical])
    assert "energy: normalised, sum of ||x||^2 over" in markdown_table([one])
    assert "energy: J, sum of power x air time over" in markdown_table([other])
    schemes = [one, TableRow("b", [replace(OF_RUN, energy_units="J")])]
    assert "energy: normalised, sum of ||x||^2 (pfels) or J, sum of power x air time (fed-smp-randk) ov" in notes(
        schemes
    )
    assert "energy: normalised, sum of ||x||^2 (a) or J, sum of power x air time (b) over" in notes([one, other])


def test_energies_of_different_units_are_not_drawn_on_one_axis(tmp_path: Path) -> None:
    """A comparison leaves out the energies, `airfl plot` draws nothing."""
    run(small_settings(), tmp_path / "normalised")
    run(small_settings("channel.units=physical", "channel.mean_gain=1e-5"), tmp_path / "physical")
    canvas = Figure()
    draw(canvas, [curves_of(name, [read_rounds(tmp_path / name)]) for name in ("normalised", "physical")])
    assert [len(axis.lines) for axis in canvas.axes] == [2, 0, 2] * 2
    assert canvas.axes[1].get_title("left") == "different units: not drawn"
    assert canvas.axes[4].get_xlabel() == "energy of all devices (J or normalised)"
    app = typer.Typer()
    app.command()(plot_command)
    folders = [str(tmp_path / name) for name in ("normalised", "physical")]
    found = CliRunner().invoke(app, [*folders, "--out", str(tmp_path / "figures")])
    assert (
        str(found.exception) == "plot: the runs' energies are in J and in normalised; compare runs with the same unit"
    )
    assert not (tmp_path / "figures").exists()


def test_the_notes_count_the_seeds_of_all_rows() -> None:
    three, two, one = TableRow("a", [PRIVATE] * 3), TableRow("b", [PRIVATE] * 2), TableRow("c", [PRIVATE])
    assert notes([three]).startswith("Mean over 3 seeds, ± standard deviation. ")
    assert notes([two, one]).startswith("Mean over 1 to 2 seeds, both values of the accuracy. ")
    assert notes([one, three]).startswith("Mean over 1 to 3 seeds, ± standard deviation. ")
    both = "Mean over 2 to 3 seeds, ± standard deviation; both values of the accuracy of two seeds. "
    assert notes([two, three]).startswith(both)
    assert "over seeds the largest" in notes([one, two])
    assert "seeds" not in notes([one])


def test_the_notes_of_a_run_without_a_round_have_no_gap() -> None:
    """Nothing of its epsilon is known but what it would be of."""
    unknown = dict.fromkeys(("epsilon_paper", "epsilon_round", *OF_THE_RUN), math.nan)
    said = notes([TableRow("a", [replace(PRIVATE, status="failed", rounds=0, **unknown)])])
    assert "(ideal link: at capacity). ε: delta 0.001, client level" in said


def test_a_charged_downlink_is_in_the_air_time_and_energies_in_joules_are_named_so(tmp_path: Path) -> None:
    physical = ("channel.units=physical", "channel.mean_gain=1e-5")
    ideal = run(small_settings(*physical, "grid.downlink=false"))
    charged = run(small_settings(*physical, "grid.downlink=true"), tmp_path / "run")
    with charged.trace() as trace:
        downlink_s = float(trace["downlink_latency_s"].sum())
    assert downlink_s > 0
    assert charged.summary().air_time_s == pytest.approx(ideal.summary().air_time_s + downlink_s)
    assert charged.summary().energy_units == "J"
    assert curves_of("joules", [read_rounds(tmp_path / "run")]).energy_units == "J"


def curves(**values: list[float]) -> PrivacyCurves:
    """A row for the privacy figure; names as in the legend, _ for a space."""
    return PrivacyCurves("a", "", 1, {name.replace("_", " "): np.array(known) for name, known in values.items()})


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Run folders of two seeds, four rounds of which two are evaluated."""
    folders = [tmp_path_factory.mktemp("seeds") / str(seed) for seed in range(2)]
    for seed, folder in enumerate(folders):
        run(small_settings("run.rounds=4", "run.evaluate_every=2", f"run.seed={seed}"), folder)
    return folders


def test_a_trace_of_an_older_version_is_summarised_and_drawn(tmp_path: Path, seeds: list[Path]) -> None:
    shutil.copytree(seeds[0], tmp_path / "old")
    with h5py.File(tmp_path / "old" / "trace.h5", "a") as trace:
        for name in ("epsilon_paper_tables", "epsilon_at_least"):
            del trace[name]
        del trace["epsilon"].attrs["csi_error"]
    with open_trace(tmp_path / "old") as trace:
        total = summarise(trace)
    assert all(map(math.isnan, (total.epsilon_at_least, total.epsilon_paper_tables)))
    assert "and the run at most " in str(total.broken_claim())
    runs = [read_rounds(tmp_path / "old")]
    files = privacy_figure.plot([("old", runs)], tmp_path / "out")
    assert [file.name for file in files if file.stat().st_size > 10_000] == ["privacy.png", "privacy.pdf"]
    assert list(privacy_figure.curves_of("old", runs).curves) == DRAWN[:-1]


def test_an_epsilon_over_seeds_bounds_that_of_every_seed() -> None:
    """The largest of upper bounds, the least of lower ones; a lower bound that one seed lacks is none."""
    runs = [replace(PRIVATE, epsilon=high, epsilon_at_least=low, epsilon_round=1.0) for high, low in ((3, 2), (5, 1))]
    row = TableRow("a", [*runs, replace(runs[0], epsilon=4.0)])
    columns = [column for column in COLUMNS if column.key in ("epsilon", "epsilon_at_least", "epsilon_round")]
    assert cells(row, columns) == ["a", "1", "1", "5"]
    (kept,) = csv.DictReader(csv_table([row]).splitlines())
    assert (float(kept["epsilon"]), float(kept["epsilon_at_least"])) == (5, 1)
    assert float(kept["epsilon_std"]) == pytest.approx(1.0)
    assert "over seeds the largest" in notes([row])
    assert "over seeds" not in notes([TableRow("a", runs[:1])])
    assert cells(TableRow("a", [runs[0], replace(runs[1], epsilon_at_least=math.nan)]), columns)[2] == "-"


def test_the_privacy_figure_draws_the_figures_of_the_trace(seeds: list[Path]) -> None:
    canvas = Figure()
    privacy_figure.draw(canvas, [privacy_figure.curves_of("PFELS", [read_rounds(folder) for folder in seeds])])
    with h5py.File(seeds[0] / "trace.h5") as first, h5py.File(seeds[1] / "trace.h5") as second:
        shown = {"epsilon_paper": [1, 2, 3, 4], "epsilon_round": [1, 2, 3, 4], "epsilon": [2, 4]}
        shown |= {"epsilon_as_poisson": [2, 4], "epsilon_at_least": [4]}
        for line, (name, rounds) in zip(canvas.axes[0].lines, shown.items(), strict=True):
            assert list(line.get_xdata()) == rounds
            worst = np.minimum if name == "epsilon_at_least" else np.maximum
            both = worst(first[name][:], second[name][:])[np.array(rounds) - 1]
            np.testing.assert_allclose(line.get_ydata(), both)
            assert name == "epsilon_paper" or not np.array_equal(first[name][:], second[name][:])
    assert canvas.axes[0].get_yscale() == "log"
    assert "client level, replace-one, δ = 0.001" in [text.get_text() for text in canvas.axes[0].texts]
    assert [text.get_text() for text in canvas.legends[0].texts] == DRAWN
    assert canvas.get_suptitle() == "worst of 2 seeds"


def test_what_a_logarithmic_axis_cannot_show_is_said_in_the_panel() -> None:
    nan, inf = math.nan, math.inf
    row = curves(one_round=[0.0, 0.0], run=[nan, inf], run_as_Poisson=[2.0, inf], run_at_least=[nan, 3.0])
    assert off_scale(row) == "inf: run, run as Poisson (first in\nround 2)\n0: one round"
    assert off_scale(curves(run=[1.0, nan], one_round=[0.0, 1.0])) == ""


def test_the_privacy_figure_has_shared_axes_of_whole_decades_and_eight_panels() -> None:
    canvas = Figure()
    rows = [curves(one_round=[0.2, 30.0], run=[math.nan, 40.0])] * 6 + [curves(run=[math.inf, math.inf])] * 3
    privacy_figure.draw(canvas, rows)
    assert len(canvas.axes) == 8
    assert canvas.get_suptitle() == "first 8 of 9 rows"
    assert {tuple(axis.get_ylim()) for axis in canvas.axes} == {(0.1, 100.0)}
    assert [axis.texts[-1].get_text() for axis in canvas.axes[6:]] == ["inf: run"] * 2
    (_, single) = canvas.axes[0].lines
    assert single.get_marker() == "o"  # a line of one point shows nothing
    assert [privacy_figure.grid(panels) for panels in (1, 3, 4, 5, 8)] == [(1, 1), (1, 3), (2, 2), (2, 3), (2, 4)]


def test_no_privacy_figure_without_a_finite_figure(tmp_path: Path) -> None:
    run(small_settings("scheme.name=fedavg"), tmp_path / "ideal")
    files = write_figures([("ideal", [tmp_path / "ideal"])], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["learning.pdf", "learning.png"]
    copied = copy_report([*files, tmp_path / "out" / "privacy.png"], tmp_path / "docs")
    assert copied == [tmp_path / "docs" / "learning.png"]


def test_a_run_without_an_evaluation_is_left_out_of_the_figures(tmp_path: Path) -> None:
    """As one that diverged in its first round is; by itself it is refused."""
    run(small_settings(), tmp_path / "whole")
    with pytest.raises(UserError, match="training diverged"):
        run(small_settings("local.learning_rate=1e30"), tmp_path / "diverged")
    told: list[str] = []
    diverged, line = [tmp_path / "diverged"], f"{tmp_path / 'diverged'}: no round of this run was evaluated"
    files = write_figures([("a", diverged), ("b", [tmp_path / "whole"])], tmp_path / "out", told.append)
    assert [file.name for file in files][:2] == ["learning.png", "learning.pdf"]
    assert told == [line]
    with pytest.raises(UserError, match="no round of this run was evaluated"):
        write_figures([("a", diverged)], tmp_path / "none", told.append)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["learning.pdf", "privacy.png", "privacy.pdf"])
def test_no_figure_replaces_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(UserError, match=rf"{name}: already exists"):
        write_figures([("a", [tmp_path / "a"])], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
