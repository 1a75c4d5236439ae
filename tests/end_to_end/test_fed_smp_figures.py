"""experiments/papers/fed_smp.py: its rows, and what it says of them."""

import math
from pathlib import Path

import dp_accounting
import pytest
import torch
from dp_accounting import rdp

import airfl
from airfl.core.world import build_world
from experiments.papers import common, fed_smp
from experiments.papers.common import Point, Runs
from experiments.papers.fed_smp import EXPERIMENTS
from tests.conftest import ROOT
from tests.end_to_end.test_paper_configurations import FOLDERS, needs

DATA = common.RESULTS / "fed-smp-table-1.csv"


def claimed(sigma: float, sampled: float, rounds: int, delta: float) -> float:
    """Theorem 1, with the conversion that the paper's API had: Rényi divergence plus log(1/delta)/(alpha - 1)."""
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 128))
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(sampled, dp_accounting.GaussianDpEvent(sigma)), rounds)
    return min(
        float(rho) + math.log(1 / delta) / (order - 1) for order, rho in zip(orders, accountant._rdp, strict=True)
    )


@pytest.mark.parametrize(("sigma", "printed"), [(1.0, 2.02), (1.4, 1.01), (2.0, 0.58), (2.5, 0.44)])
def test_noise_of_tables_4_to_7_gives_their_epsilon(sigma: float, printed: float) -> None:
    assert claimed(sigma, 100 / 6000, 180, 6000**-1.1) == pytest.approx(printed, rel=0.01)
    lines = {sigma for name in ("table-4", "table-5", "table-6", "table-7") for sigma in fed_smp.TRADEOFFS[name][2]}
    assert lines == {1.0, 2.0, 2.5}


@pytest.mark.parametrize(("sigma", "said"), [(0.25, 11.7), (0.3, 7.9), (0.35, 5.6), (0.4, 4.2)])
def test_epsilon_of_tables_8_and_9_for_the_hypothetical_population(sigma: float, said: float) -> None:
    assert claimed(sigma, 10 / 1e9, 1000, 1e9**-1.1) == pytest.approx(said, abs=0.05)
    assert f"{said:g}" in (fed_smp.__doc__ or "")


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_rows_have_the_settings_that_their_labels_say(name: str) -> None:
    experiment = EXPERIMENTS[name]
    settings = experiment.settings()
    assert set(experiment.published) in ({*settings}, set())
    for label, one in settings.items():
        scheme, *rest = label.split(", ")
        values = {key: float(value) for key, value in (part.split(" = ") for part in rest)}
        assert one.scheme.name == scheme.lower().removesuffix(" without d/k")
        assert one.scheme.values().get("unscaled", False) == ("without d/k" in scheme)
        assert one.scheme.values().get("ratio", 1) == values.get("p", 1)
        if "Fed-SMP" in label or label == "DP-FedAvg":
            default = 0.3 if "shakespeare" in one.task.dataset else 1.4
            assert one.scheme.noise_multiplier == values.get("sigma", default)
        public = {"svhn": 2000}.get(one.task.dataset.removesuffix("-extra"), 1000)
        assert one.task.public_samples == (public if "Fed-SMP-topk" in label else 0)


def runs_of(values: dict[str, float], rounds: int = 180) -> Runs:
    return {(label, 0): [Point(label, 0, rounds, accuracy, 1.0)] for label, accuracy in values.items()}


def test_statements_follow_from_the_runs() -> None:
    topk, randk = "Fed-SMP-topk, p = 0.005", "Fed-SMP-randk, p = 0.005"
    values = {"DP-FedAvg": 70.0, topk: 71.0, randk: 60.0}
    assert [said.removesuffix(", best of the first 180 rounds") for said in fed_smp.statements(runs_of(values))] == [
        f"{topk} is ahead of DP-FedAvg: not told apart (+1.00 ± 1.29 points)",
        f"{randk} is ahead of DP-FedAvg: no (-10.00 ± 1.34 points)",
        f"{topk} is ahead of {randk}: yes (+11.00 ± 1.34 points)",
    ]
    assert fed_smp.statements(runs_of({"FedAvg": 80.0})) == []


def test_runs_are_compared_at_the_rounds_that_all_have() -> None:
    label = "Fed-SMP-topk, p = 0.005"
    whole = [Point(label, 0, rounds, accuracy, 1.0) for rounds, accuracy in ((60, 65.0), (180, 80.0))]
    runs = {("DP-FedAvg", 0): [Point("DP-FedAvg", 0, 60, 70.0, 1.0)], (label, 0): whole}
    assert fed_smp.statements(runs) == [
        "Fed-SMP-topk, p = 0.005 is ahead of DP-FedAvg: no (-5.00 ± 1.32 points), best of the first 60 rounds"
    ]


def test_the_page_shows_what_the_commands_print(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("table-1", "unscaled", "table-4", "table-5", "table-3"):
        fed_smp.main([name, "--show"])
    printed = capsys.readouterr().out.splitlines()
    section = (ROOT / "docs" / "papers.md").read_text().partition("## Fed-SMP, accuracy")[2].partition("\n## ")[0]
    lines = section.splitlines()
    assert [line for line in lines if line.startswith("|")] == [line for line in printed if line.startswith("|")]
    assert [line for line in lines if line.startswith("- ") and line.endswith(" rounds") and "±" in line] == [
        line for line in printed if line.startswith("- ")
    ]


def traffic(runs: dict[str, list[Point]]) -> dict[str, float | None]:
    """MB until 72% are reached, of the lines of figure 2."""
    settings = EXPERIMENTS["table-1"].settings()
    return {
        label: fed_smp.first_at(
            runs[label], 72.0, airfl.link_budget(settings[label]).paper_cost_mb / settings[label].run.rounds
        )
        for label in fed_smp.lines_of_figure_2("table-1")
    }


def test_what_the_page_says_in_words() -> None:
    runs = {label: points for label, (points,) in common.by_label(common.read(DATA)).items()}
    assert {points[-1].round for points in runs.values()} == {180}
    assert set(runs) == set(EXPERIMENTS["table-1"].published)
    words = " ".join((ROOT / "docs" / "papers.md").read_text().split())
    tops = {label: max(points, key=lambda point: point.accuracy) for label, points in runs.items()}
    best = {label: point.accuracy for label, point in tops.items()}

    def top(p: str) -> float:
        return best[f"Fed-SMP-topk, p = {p}"]

    def rand(p: str) -> float:
        return best[f"Fed-SMP-randk, p = {p}"]

    paper, private = EXPERIMENTS["table-1"].published, best["DP-FedAvg"]
    assert 0 < paper["FedAvg"] - best["FedAvg"] < 0.9
    assert f"DP-FedAvg is {private - paper['DP-FedAvg']:.1f} above it" in words
    behind = {label: paper[label] - best[label] for label in best if "topk" in label}
    assert 3.1 < max(behind.values()) < 3.2
    assert abs(behind["Fed-SMP-topk, p = 0.001"]) < 0.05
    assert top("0.01") == max(accuracy for label, accuracy in best.items() if "topk" in label)
    close = [top(p) for p in ("0.005", "0.01", "0.1", "0.2")]
    assert max(close) - min(close) < common.margin([max(close)], [min(close)], fed_smp.TEST_SAMPLES)
    assert f"top-k is best at p = 0.01, {top('0.01'):.2f}%" in words
    assert f"at p = 0.8 it is {top('0.01') - top('0.8'):.1f} points lower" in words
    assert f"exceeds DP-FedAvg's best by {top('0.01') - private:.1f} points, where the paper has 8.0" in words
    assert rand("0.1") == max(accuracy for label, accuracy in best.items() if "randk" in label)
    assert f"to {rand('0.1'):.1f}%: {rand('0.1') - private:.1f} points ahead of DP-FedAvg's best" in words
    assert f"and {rand('0.1') - top('0.1'):.1f} ahead of top-k with the same p, where in the paper it is 2.9" in words
    assert f"here it ends there at {rand('0.001'):.1f}%, and at p = 0.005 and 0.01 at" in words
    assert f"at {rand('0.005'):.1f} and {rand('0.01'):.1f}%, where the paper has 56.0 and 65.6" in words
    assert (paper[f"{fed_smp.RANDK}, p = 0.005"], paper[f"{fed_smp.RANDK}, p = 0.01"]) == (56.04, 65.61)
    said = fed_smp.savings("table-1", traffic(runs))
    assert [line.partition(": ")[2] for line in said] == ["99 % (paper: 99 %)", "60 % (paper: 70 %)"]
    falling = ["DP-FedAvg", *(f"Fed-SMP-topk, p = {p}" for p in ("0.1", "0.2", "0.8")), "Fed-SMP-randk, p = 0.8"]
    falls = [best[label] - runs[label][-1].accuracy for label in falling]
    assert {tops[label].round for label in falling} == {60}
    assert f"end {min(falls):.1f} to {max(falls):.1f} points lower" in words
    assert tops["Fed-SMP-topk, p = 0.4"].round == 80
    small = (f"{fed_smp.RANDK}, p = {p}" for p in ("0.001", "0.005", "0.01", "0.1"))
    rising = ("Fed-SMP-topk, p = 0.001", *small, "FedAvg")
    assert {tops[label].round for label in rising} == {180}


def test_what_the_page_says_of_rand_k_without_its_factor() -> None:
    words, paper = " ".join((ROOT / "docs" / "papers.md").read_text().split()), fed_smp.TABLE_1
    whole = common.by_label(common.read(DATA))
    without = common.by_label(common.read(common.RESULTS / "fed-smp-unscaled.csv"))
    best = {label.partition("p = ")[2]: common.best(curves) for label, curves in without.items()}
    printed = {p: paper[f"{fed_smp.RANDK}, p = {p}"] for p in best}
    off = {p: abs(best[p] - printed[p]) for p in best}
    assert f"within {math.ceil(10 * max(off.values())) / 10:.1f} points of the paper everywhere" in words
    assert max(off[p] for p in best if float(p) >= 0.01) < 2
    assert max(best, key=lambda p: best[p]) == max(printed, key=lambda p: printed[p]) == "0.4"

    def ahead(p: str) -> tuple[float, float, float]:
        """Points by which top-k is ahead: without the factor, as written, and in the paper."""
        top = common.best(whole[f"{fed_smp.TOPK}, p = {p}"])
        written = top - common.best(whole[f"{fed_smp.RANDK}, p = {p}"])
        return top - best[p], written, paper[f"{fed_smp.TOPK}, p = {p}"] - printed[p]

    smallest, tenth = ahead("0.001"), ahead("0.1")
    assert f"{smallest[0]:.1f} points ahead at p = 0.001 and {tenth[0]:.1f} at p = 0.1" in words
    assert f"(paper: {smallest[2]:.1f} and {tenth[2]:.1f}), where as written" in words
    assert f"where as written it is {smallest[1]:.1f} ahead and {-tenth[1]:.1f} behind" in words


def test_what_the_page_says_of_more_noise_and_of_the_plays() -> None:
    words = " ".join((ROOT / "docs" / "papers.md").read_text().split())
    for name in ("table-4", "table-5"):
        (curve,) = next(iter(common.by_label(common.read(EXPERIMENTS[name].file(common.RESULTS))).values()))
        assert max(curve, key=lambda point: point.accuracy).round == 10
        assert all(point.accuracy < 18 for point in curve if point.round >= 30)
    plays = common.by_label(common.read(EXPERIMENTS["table-3"].file(common.RESULTS)))
    always_a_space = 18.61  # its share of the test characters, see below
    assert f"is right in {always_a_space:.1f}% of all cases" in words
    for label, curves in plays.items():
        assert (common.best(curves) > always_a_space + 1) == (label == "FedAvg")


@needs("shakespeare-plays")
@pytest.mark.full
def test_the_space_is_the_most_frequent_character_of_the_plays() -> None:
    settings = EXPERIMENTS["table-3"].settings()["DP-FedAvg"].resolved(local={"measure": False})
    world = build_world(settings, torch.device("cpu"), FOLDERS)
    shares = torch.bincount(world.task.test.targets) / len(world.task.test)
    assert round(100 * float(shares.max()), 2) == 18.61
    sizes = world.task.partition.sizes
    assert (len(sizes), int(sizes.min()), int(sizes.max())) == (715, 49, 9832)


@needs("fashion-mnist")
@pytest.mark.full
def test_a_point_of_the_data_is_re_made() -> None:
    fed_smp.main(["table-1", "--check"])


def test_a_run_that_was_cut_short_says_so() -> None:
    text = common.table(EXPERIMENTS["table-1"], runs_of({"FedAvg": 50.0}, rounds=20))
    assert "| FedAvg | 86.98 | 50.00 | 50.00 | 20 of 180 | 1 | 1 |" in text


def test_figures_2_and_3_are_drawn(tmp_path: Path) -> None:
    assert fed_smp.figure_2(tmp_path, tmp_path) == ["no data to draw: run table-1, table-2 or table-3 first"]
    for name in ("table-1", "figure-3"):
        one = EXPERIMENTS[name]
        runs = {
            (label, 0): [Point(label, 0, rounds, 40.0 + rounds, 1.0, 1.5) for rounds in (20, 40)]
            for label in one.labels
        }
        common.write(one, runs, one.file(tmp_path), "by hand")
    file, *said = fed_smp.figure_2(tmp_path, tmp_path)
    assert (tmp_path / "fed-smp-figure-2.png").stat().st_size > 10_000
    assert file.endswith("fed-smp-figure-2.png")
    assert said == [  # all reach it in the same round, so the traffic is in proportion to p
        "- Fed-SMP-topk, p = 0.005, traffic saved at 72 % against DP-FedAvg: 100 % (paper: 99 %)",
        "- Fed-SMP-randk, p = 0.4, traffic saved at 72 % against DP-FedAvg: 60 % (paper: 70 %)",
    ]
    assert fed_smp.figure_3(tmp_path, tmp_path).stat().st_size > 10_000


def test_traffic_to_a_target() -> None:
    curve = [Point("one", 0, rounds, 10.0 * rounds, 1.0) for rounds in (1, 2, 3)]
    assert fed_smp.first_at(curve, 20.0, 0.5) == 1.0
    assert fed_smp.first_at(curve, 31.0, 0.5) is None
    assert fed_smp.savings("table-1", {"DP-FedAvg": None, "Fed-SMP-topk, p = 0.005": 1.0}) == [
        "- Fed-SMP-topk, p = 0.005, traffic saved at 72 % against DP-FedAvg: one or both do not reach it (paper: 99 %)"
    ]


def test_data_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    for option in ("--show", "--check"):
        with pytest.raises(SystemExit, match=r"no data yet in .*fed-smp-table-9.csv; run the same command without"):
            fed_smp.main(["table-9", option, "--results", str(tmp_path)])
