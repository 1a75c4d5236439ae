"""Averages over seeds, comparisons at equal cost, and the tidy table."""

import json
import math
import shutil
import statistics
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import airfl
from airfl.analysis.results import read_results, read_some_results, sweep_folder
from airfl.analysis.results.averages import NOT_NEGATIVE, PERCENT, SHARE, average, bounds_of
from airfl.analysis.results.digest import CUMULATIVE, OBSERVED, digest_of, keep
from airfl.analysis.results.equal_cost import accuracy_at, check_units, common_budget, compare_at, cost_to, reached
from airfl.analysis.results.result import Group, Results
from airfl.analysis.results.sweep_folder import Entry, Listing, open_folder, write_listing
from airfl.analysis.results.tidy import write
from airfl.core.summary import summarise
from airfl.errors import UserError
from airfl.exports import export
from airfl.report.page import write_page
from airfl.report.results import FIGURES, ordered, plain_results
from airfl.storage.output_files import DIGEST_NAME
from airfl.storage.shards import Shards
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.report_page import summarised
from tests.small_data import run

OUTSIDE = {"folder": "../x", "label": "", "values": {}, "seed": 0}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PFELS at two ratios and FedAvg, two seeds each, as a sweep leaves them; without digests."""
    root = tmp_path_factory.mktemp("results") / "sweep"
    entries = []
    for scheme, ratio in (("pfels", 0.1), ("pfels", 1.0), ("fedavg", 1.0)):
        for seed in (0, 1):
            values = {"scheme.name": scheme} | ({"scheme.ratio": ratio} if scheme == "pfels" else {})
            changes = [f"{key}={value}" for key, value in values.items()]
            folder = f"{scheme}-{ratio}-{seed}"
            run(small_settings(*changes, f"run.seed={seed}", "run.rounds=4", "run.evaluate_every=1"), root / folder)
            entries.append(Entry(folder, "", values, seed))
    write_listing(Listing(root, tuple(entries)))
    return root


@pytest.fixture(scope="module")
def results(swept: Path) -> Results:
    return read_results(swept)


def mean_of(group: Group, figure: str) -> float:
    return float(np.mean([getattr(run.digest.summary, figure) for run in group.runs]))


def test_averages_are_students() -> None:
    """But for fewer than three values, and infinite ones: Student's of 0.5 and 0.74 would go from -0.9 to 2.1."""
    values = [0.71, 0.74, 0.78, 0.73]
    one = average(values)
    assert one.mean == pytest.approx(statistics.mean(values))
    assert one.deviation == pytest.approx(statistics.stdev(values))
    # t of 3 degrees of freedom at 97.5%, from tables: 3.182446.
    assert one.high - one.mean == pytest.approx(3.182446 * statistics.stdev(values) / 2, rel=1e-6)
    assert one.mean - one.low == pytest.approx(one.high - one.mean)
    single, two, infinite = average([2.0]), average([0.5, 0.74], SHARE), average([math.inf, math.inf])
    assert (single.mean, single.points, single.written(str)) == (2.0, (), "2.0")
    assert (two.count, two.mean, two.points) == (2, pytest.approx(0.62), (0.5, 0.74))
    assert two.written("{:.2f}".format) == "0.50; 0.74"
    assert infinite.mean == math.inf
    assert all(map(math.isnan, (single.deviation, two.low, two.high, infinite.low)))


def test_the_interval_of_a_bounded_figure_lies_within_its_bounds() -> None:
    shares = [0.97, 0.99, 0.6]
    cut, free = average(shares, SHARE), average(shares)
    assert free.high > 1
    assert (cut.low, cut.high) == (free.low, 1.0)
    assert cut.written("{:.2f}".format) == f"0.85 ({free.low:.2f} to 1.00)"
    assert average([0.0, 1.0, 0.0], SHARE).low == 0
    costs = average([1.0, 2.0, 40.0], NOT_NEGATIVE)
    assert costs.low == 0
    assert costs.high == average([1.0, 2.0, 40.0]).high
    assert average([5.0, 5.1, 5.2], NOT_NEGATIVE).written("{:.1f}".format) == "5.1 ± 0.2"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.sampled_from([SHARE, NOT_NEGATIVE, PERCENT]))
def test_no_interval_leaves_its_bounds_or_its_mean(values: list[float], within: tuple[float, float]) -> None:
    """And what is within them stays, so that it covers the truth as often."""
    one, free = average(values, within), average(values)
    if len(values) < 3:
        assert all(map(math.isnan, (one.low, one.high)))
    else:
        assert one.low <= one.mean * (1 + 1e-12)
        assert one.mean * (1 - 1e-12) <= one.high
        assert (one.low, one.high) == pytest.approx((max(free.low, within[0]), min(free.high, within[1])), abs=1e-12)
        assert within[0] <= one.low
        assert one.high <= within[1]


def test_every_figure_of_a_run_has_its_bounds() -> None:
    shares = {name for name in (*FIGURES, *OBSERVED) if bounds_of(name) == SHARE}
    assert shares == {"test_accuracy", "best_accuracy", "validation_accuracy", "silent_share", "non_finite_share"}
    assert all(bounds_of(name) in (SHARE, NOT_NEGATIVE) for name in (*FIGURES, *OBSERVED, *CUMULATIVE))


def test_the_interval_covers_the_truth_95_times_in_100() -> None:
    draws = np.random.default_rng(7).normal(3.0, 2.0, size=(4000, 5))
    covered = np.mean([found.low <= 3.0 <= found.high for found in map(average, draws)])
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / len(draws))


def test_groups_are_runs_that_differ_in_their_seed(results: Results) -> None:
    assert results.axes == ("scheme.name", "scheme.ratio")
    names = ["scheme = pfels, ratio = 0.1", "scheme = pfels, ratio = 1.0", "scheme = fedavg"]  # which has no ratio
    assert [group.name for group in results.groups] == names
    assert [[run.seed for run in group.runs] for group in results.groups] == [[0, 1]] * 3


def test_a_digest_says_what_the_trace_says(swept: Path) -> None:
    folder = swept / "pfels-0.1-0"
    found = digest_of(folder)
    with airfl.open_trace(folder) as trace:
        assert repr(found.summary) == repr(summarise(trace))
        energy = np.cumsum(trace["energy_j"].values)
        np.testing.assert_allclose(found.course["energy"], energy, rtol=1e-12)
        np.testing.assert_array_equal(found.course["test_accuracy"], trace["test_accuracy"].values)
        np.testing.assert_array_equal(found.course["resource_elements"], np.cumsum(trace["resource_elements"].values))
    assert found.course["rounds"].tolist() == [1, 2, 3, 4]


def test_a_kept_digest_is_of_no_other_trace(swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run(small_settings("scheme.name=fedavg"), tmp_path / "run").path.parent
    made = keep(folder)
    with monkeypatch.context() as patch:
        patch.setattr("airfl.analysis.results.digest.open_trace", lambda *given: pytest.fail("the trace was read"))
        kept = digest_of(folder)
    np.testing.assert_equal(asdict(kept.summary), asdict(made.summary))  # nan and inf survive
    np.testing.assert_equal(dict(kept.course), dict(made.course))
    # The trace is another one now: its digest is made anew.
    (folder / "trace.h5").write_bytes((swept / "pfels-1.0-1" / "trace.h5").read_bytes())
    assert digest_of(folder).summary.scheme == "pfels"
    (folder / DIGEST_NAME).write_text("{]")
    assert digest_of(folder).summary.scheme == "pfels"


def test_accuracy_at_a_budget_is_that_of_the_last_evaluation_it_pays_for(results: Results) -> None:
    run = results.groups[0].runs[0]
    spent, accuracy = run.digest.course["energy"], run.digest.course["test_accuracy"]
    assert accuracy_at(run, "energy", spent[2]) == accuracy[2]
    assert accuracy_at(run, "energy", (spent[2] + spent[3]) / 2) == accuracy[2]
    assert math.isnan(accuracy_at(run, "energy", spent[0] / 2))
    assert accuracy_at(run, "rounds", 4) == accuracy[-1]
    assert math.isnan(accuracy_at(run, "rounds", 60))  # the run says nothing of that


def test_all_are_compared_at_what_each_has_spent(results: Results) -> None:
    budget = common_budget(results.groups, "resource_elements")
    totals = [run.digest.summary.resource_elements for group in results.groups[:2] for run in group.runs]
    assert budget == min(totals)
    found = compare_at(results.groups, "resource_elements", budget)
    assert found[0].mean == pytest.approx(mean_of(results.groups[0], "test_accuracy"))
    # Ten times the elements a round: within the first round's budget of the other there is nothing.
    assert math.isnan(found[1].mean)
    assert common_budget(results.groups, "rounds") == 4
    with pytest.raises(UserError, match="a run has a cost of zero"):
        common_budget(results.groups, "uplink_bits")
    with pytest.raises(UserError, match="did you mean energy"):
        common_budget(results.groups, "enrgy")


def test_energies_of_two_units_are_not_compared(results: Results) -> None:
    check_units(results.groups, "energy")
    joules = summarised(results.groups[0].runs[0], energy_units="J")
    mixed = [*results.groups, replace(results.groups[0], runs=(joules,))]
    check_units(mixed, "rounds")
    with pytest.raises(UserError, match="energies are in J and in normalised"):
        check_units(mixed, "energy")


def test_the_cost_of_a_target_is_that_of_its_first_evaluation(results: Results) -> None:
    run = results.groups[0].runs[0]
    accuracy = run.digest.course["test_accuracy"]
    first = int(np.flatnonzero(accuracy >= accuracy[3])[0])
    assert cost_to(run, "rounds", float(accuracy[3])) == first + 1
    assert cost_to(run, "energy", float(accuracy[3])) == run.digest.course["energy"][first]
    assert cost_to(run, "energy", 1.0) == math.inf
    assert reached(results.groups[0], 1.0) == 0


def test_the_tidy_table_has_a_line_a_run(results: Results, tmp_path: Path) -> None:
    files = write(results.frame(), tmp_path / "tables")
    parquet, csv = pd.read_parquet(files[0]), pd.read_csv(files[1])
    assert len(parquet) == len(csv) == 6
    assert parquet["scheme.ratio"].tolist()[:4] == [0.1, 0.1, 1.0, 1.0]
    assert parquet["scheme.ratio"].isna().tolist() == [False] * 4 + [True] * 2  # FedAvg has none
    assert files[1].read_text().splitlines()[-1].split(",")[3:6] == ["ideal", "fedavg", ""]
    for column in ("test_accuracy", "energy", "resource_elements", "epsilon", "seed"):
        expected = [getattr(run.digest.summary, column) for group in results.groups for run in group.runs]
        np.testing.assert_array_equal(parquet[column], expected)
        np.testing.assert_array_equal(csv[column], expected)
    with pytest.raises(UserError, match="already exists"):
        write(results.frame(), tmp_path / "tables")


def test_a_list_that_another_shard_writes_meanwhile_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look for the list of the sweep and that for other files."""
    others = Listing(tmp_path, (Entry("0123456789ab", "", {"run.seed": 1}, 1),), command="sweep")
    read = sweep_folder.read_shards

    def after_another(root: Path) -> Shards:
        if not (root / "sweep.json").exists():
            write_listing(others)
        return read(root)

    monkeypatch.setattr(sweep_folder, "read_shards", after_another)
    assert open_folder(tmp_path).entries == others.entries
    (tmp_path / "thesis.tex").touch()
    (tmp_path / "sweep.json").unlink()
    monkeypatch.setattr(sweep_folder, "read_shards", read)
    with pytest.raises(UserError, match="contains other files and no sweep"):
        open_folder(tmp_path)


def test_sorted_by_a_key_or_a_figure(results: Results) -> None:
    accuracies = [mean_of(group, "test_accuracy") for group in ordered(results, "test_accuracy")]
    assert accuracies == sorted(accuracies, reverse=True)
    energies = [mean_of(group, "energy") for group in ordered(results, "energy")]
    assert energies == sorted(energies)
    assert [group.values["scheme.ratio"] for group in ordered(results, "ratio")] == [0.1, 1.0, None]
    wide, narrow = results.groups[:2]  # 3 and 1 have a smaller mean than 2.5 and 2, but bound less
    given = zip((*wide.runs, *narrow.runs), (3.0, 1.0, 2.5, 2.0), strict=True)
    bounds = Results(tuple(summarised(run, epsilon=one) for run, one in given), results.axes)
    assert [group.name for group in ordered(bounds, "epsilon")] == [narrow.name, wide.name]
    with pytest.raises(UserError, match="--sort: unknown value 'acuracy'"):
        ordered(results, "acuracy")


def test_plain_results_have_what_bounds_the_epsilon_of_every_seed(results: Results) -> None:
    group = results.groups[0]
    given = tuple(
        summarised(run, epsilon=upper, epsilon_at_least=lower)
        for run, upper, lower in zip(group.runs, (3.0, 5.0), (2.0, 1.0), strict=True)
    )
    (plain,) = plain_results(Results(given, results.axes))["groups"]
    assert [plain["figures"][name]["mean"] for name in ("epsilon", "epsilon_at_least")] == [4.0, 1.5]
    assert [plain["figures"][name]["holds"] for name in ("epsilon", "epsilon_at_least")] == [5.0, 1.0]
    assert "holds" not in plain["figures"]["test_accuracy"]


def test_plain_results_are_the_means_of_the_traces(swept: Path, results: Results) -> None:
    plain = plain_results(results, budgets={"rounds": 3.0}, target=0.0)
    accuracies = []
    for seed in (0, 1):
        with airfl.open_trace(swept / f"pfels-0.1-{seed}") as trace:
            accuracies.append(trace["test_accuracy"].values)
    group = plain["groups"][0]
    assert group["figures"]["test_accuracy"]["values"] == [one[-1] for one in accuracies]
    assert math.isnan(group["figures"]["test_accuracy"]["low"])  # of two seeds
    assert group["figures"]["test_accuracy"]["mean"] == pytest.approx(np.mean([one[-1] for one in accuracies]))
    assert group["accuracy_at"]["rounds"]["mean"] == pytest.approx(np.mean([one[2] for one in accuracies]))
    assert group["cost_to"]["rounds"]["mean"] == 1.0
    assert not [name for name in group["figures"] if name.endswith("seconds") or "utc" in name]  # no timings


def test_points_of_a_widened_sweep_are_told_apart_by_their_own_settings(swept: Path, tmp_path: Path) -> None:
    """A point of the first sweep was not swept over the key of the second: its settings say what it had."""
    root = tmp_path / "wide"
    root.mkdir()
    for name in ("pfels-0.1-0", "pfels-1.0-0"):
        (root / name).symlink_to(swept / name)
    entries = (Entry("pfels-0.1-0", "", {"scheme.ratio": 0.1}, 0), Entry("pfels-1.0-0", "", {"run.devices": 100}, 0))
    write_listing(Listing(root, entries))
    found = read_results(root)
    values = [{"scheme.ratio": ratio, "run.devices": 100} for ratio in (0.1, 1.0)]
    assert [dict(run.values) for run in found.runs] == values


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("notes.txt", "mine", "holds no run"),
        ("sweep.json", "{]", "cannot be read as JSON"),
        ("sweep.json", '{"schema": "airfl-sweep/7"}', "not a sweep of schema airfl-sweep/1"),
        ("sweep.json", "[1]", "not a sweep of schema"),
        ("sweep.json", json.dumps({"schema": "airfl-sweep/1", "points": [OUTSIDE]}), "damaged"),
        ("sweep.json", '{"schema": "airfl-sweep/1", "points": 3}', "damaged"),
    ],
)
def test_a_folder_that_is_no_sweep_is_told_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message) as told:
        read_results(tmp_path)
    assert "\n" not in str(told.value)


def test_comparisons_and_sweeps_below_a_folder_of_runs_are_named(swept: Path, tmp_path: Path) -> None:
    """They are not read with it, and its results would seem to be all."""
    (tmp_path / "nest" / "cmp").mkdir(parents=True)
    (tmp_path / "nest" / "cmp" / "rows.json").write_text("[]")
    (tmp_path / "nest" / "sw").symlink_to(swept)
    nest = tmp_path / "nest"
    said = [
        f"{nest / 'cmp'} (a comparison); give it as a folder of its own",
        f"{nest / 'sw'} (a sweep); give it as a folder of its own",
    ]
    with pytest.raises(UserError, match=one_line(f"{nest}: holds no run", *said)):
        read_results(nest)
    (nest / "one").symlink_to(swept / "pfels-0.1-0")
    found = read_results(nest)
    assert [run.folder.name for run in found.runs] == ["one"]
    assert list(found.unreadable.values()) == said
    assert list(found.unreadable) == [str(nest / "cmp"), str(nest / "sw")]


@pytest.mark.parametrize("left", ["checkpoint/lock", "rows.json"])
def test_what_has_stored_no_round_yet_is_not_taken_for_nothing(left: str, tmp_path: Path) -> None:
    out, words = tmp_path / "out", "begun, no round stored yet; resume it with --resume"
    (out / left).parent.mkdir(parents=True)
    (out / left).write_text("[]")
    readers: tuple[Callable[[Path], object], ...] = (
        read_results,
        write_page,
        lambda folder: export(folder, "npz", tmp_path / "exported"),
    )
    for read in readers:
        with pytest.raises(UserError, match=one_line(words, begins=f"{out}: ")):
            read(out)
    if left != "rows.json":
        with pytest.raises(UserError, match=one_line(words, f"{out}: ")):
            read_results(tmp_path)
    assert not (tmp_path / "exported").exists()


def test_a_file_is_no_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "trace.h5").touch()
    with pytest.raises(UserError, match=one_line("trace.h5: a file, not a folder")):
        read_results(tmp_path / "trace.h5")


def test_runs_of_two_folders_that_are_alike_are_told_apart_by_the_folder(swept: Path, tmp_path: Path) -> None:
    assert len(read_results([swept, swept / ".." / swept.name]).runs) == 6
    copy = tmp_path / "copy"
    copy.symlink_to(swept)
    assert len(read_results([swept, copy]).runs) == 6
    other = tmp_path / "other"
    other.mkdir()
    (other / "pfels-0.1-0").symlink_to(swept / "pfels-0.1-0")
    write_listing(Listing(other, (Entry("pfels-0.1-0", "", {"scheme.name": "pfels", "scheme.ratio": 0.1}, 0),)))
    groups = read_results([swept, other]).groups
    assert [len(group.runs) for group in groups] == [2, 2, 2, 1]
    assert groups[0].name == f"{swept}, scheme = pfels, link = analog, ratio = 0.1"
    assert groups[3].name == f"{other}, scheme = pfels, link = analog, ratio = 0.1"
    assert groups[1].label == str(swept)  # a series has one name


def test_single_runs_of_one_name_are_told_apart_by_their_folders(swept: Path, tmp_path: Path) -> None:
    """Of links to one folder there would be one run."""
    folders = [tmp_path / name / "seed-0" for name in "ab"]
    for folder in folders:
        shutil.copytree(swept / "pfels-0.1-0", folder)
    assert [group.name for group in read_results(folders).groups] == list(map(str, folders))


def test_nothing_is_drawn_of_a_sweep_without_a_finished_point(tmp_path: Path) -> None:
    write_listing(Listing(tmp_path, (Entry("0123456789ab", "", {"scheme.ratio": 0.1}, 0),), {"0123456789ab": "why"}))
    found = read_results(tmp_path)
    assert (found.runs, found.missing, list(found.failed.values())) == ((), 0, ["why"])
    assert write(found.frame(), tmp_path / "tables")[0].exists()
    with pytest.raises(UserError, match="no point is finished yet"):
        read_some_results(tmp_path)
