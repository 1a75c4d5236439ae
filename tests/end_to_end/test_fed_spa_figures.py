"""experiments/papers/common.py and fed_spa.py, their data, and what docs/schemes/fed-spa.md says of them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

import airfl
from airfl.config import load_rows
from experiments.papers import common, fed_spa
from experiments.papers.common import RESULTS, Experiment, Job, Point
from tests.conftest import ROOT
from tests.end_to_end.test_paper_configurations import needs

PAGE = ROOT / "docs" / "schemes" / "fed-spa.md"
SMALL = [
    "task.dataset=fashion-mnist-sample", "task.model=mlp", "run.rounds=4", "run.devices=10",
    "run.selected=3", "local.steps=2", "scheme.coordinate_clip=0.1",
]  # fmt: skip
EXPERIMENT = Experiment(
    "small", "fed-spa-mnist", published={"one": 10.0}, rows={"one": [*SMALL, "scheme.ratio=0.5"], "two": SMALL}
)


def test_noise_of_theorem_1_is_that_of_epsilon_1() -> None:
    a = 7 * (10 / 600) ** 2 * 4.5 * 300 / fed_spa.REQUIRED**2  # q = B/600, 4.5 participations of 300 steps
    assert a + 2 * math.sqrt(a * math.log(1 / 1e-3)) == pytest.approx(1, abs=2e-3)


def test_readings_divide_the_noise() -> None:
    settings = fed_spa.EXPERIMENTS["noise"].settings()
    noise = {label: one.scheme.noise_multiplier for label, one in settings.items()}
    assert noise["theorem 1; clip median; server step 0.01"] == 8.81
    assert noise["c in place of G; clip 0.2; server step 0.1"] == pytest.approx(8.81 / math.sqrt(21_840))
    assert noise["no noise; clip 0.02; server step 0.01"] == 0
    assert settings["no noise; clip median; server step 0.01"].scheme.coordinate_clip is None
    assert settings["no noise; clip 0.2; server step 0.1"].server.learning_rate == 0.1
    assert {one.scheme.ratio for one in settings.values()} == {0.1}


@pytest.mark.parametrize(("name", "configuration"), [("table-1", "fed-spa-mnist"), ("table-2", "fed-spa-cifar10")])
def test_rows_of_tables_are_those_of_the_configuration(name: str, configuration: str) -> None:
    settings = fed_spa.EXPERIMENTS[name].settings()
    rows = {row.label for row in load_rows(common.CONFIGURATIONS / f"{configuration}.toml")}
    assert {*settings} == {*fed_spa.TABLES[name]} == rows
    assert settings["Fed-SPA, p = 0.4"].scheme.ratio == 0.4


def test_rows_of_figure_1_have_the_epsilon_and_the_ratio_of_their_labels() -> None:
    settings = fed_spa.EXPERIMENTS["figure-1"].settings()
    assert len(settings) == len(fed_spa.RATIOS) * len(fed_spa.EPSILONS)
    for label, one in settings.items():
        _, p, epsilon = label.split(", ")
        assert one.scheme.ratio == float(p.removeprefix("p = "))
        assert one.privacy.epsilon == float(epsilon.removeprefix("ε = "))
        assert one.scheme.noise_multiplier is None


def test_figure_1_is_drawn_and_shown(tmp_path: Path) -> None:
    label = fed_spa.tradeoff_label(0.1, 4)
    runs = {(label, 0): [Point(label, 0, rounds, 10 * rounds, 2.5) for rounds in (1, 2)]}
    assert "| 4 | 20.00 (2) |  |  |  | 2.5 |" in fed_spa.tradeoff_table(runs)
    assert fed_spa.draw(runs, tmp_path).stat().st_size > 5000


@pytest.mark.parametrize(("p", "trials"), [(0.05, 1), (0.1, 7)])
def test_cpsgd_has_no_guarantee_where_it_diverges_in_the_paper(p: float, trials: int) -> None:
    """Of two levels, the fewest, and the most trials that log2(k + m) = 32 p leaves."""
    assert math.log2(2 + trials) <= 32 * p < math.log2(2 + trials + 1)
    overrides = ["scheme.name=cpsgd", "scheme.levels=2", f"scheme.trials={trials}", "scheme.quantiser_bound=0.0107"]
    with pytest.raises(airfl.UserError, match="must be at least 22 for a privacy guarantee"):
        airfl.link_budget("fed-spa-mnist", overrides=[*overrides, "run.selected=100", "local.steps=1"])


def test_data_is_read_as_it_was_written(tmp_path: Path) -> None:
    runs = {
        (label, seed): [Point(label, seed, rounds, 12.5 * rounds, 0.25) for rounds in (1, 2)]
        for label, seed in (("two", 0), ("one", 1), ("one", 0))
    }
    common.write(EXPERIMENT, runs, tmp_path / "data.csv", "the command")
    again = common.read(tmp_path / "data.csv")
    assert again == runs
    assert list(again) == [("one", 0), ("one", 1), ("two", 0)]
    assert (tmp_path / "data.csv").read_text().startswith("# the command\n# airfl ")


def test_training_loss_and_energy_are_kept_where_asked(tmp_path: Path) -> None:
    experiment = replace(EXPERIMENT, extras=common.EXTRAS)
    runs = {("one", 0): [Point("one", 0, 1, 12.5, 0.25, 2.25, 1e11)]}
    common.write(experiment, runs, tmp_path / "data.csv", "the command")
    assert common.read(tmp_path / "data.csv") == runs
    common.write(EXPERIMENT, runs, tmp_path / "data.csv", "the command")
    assert common.read(tmp_path / "data.csv") == {("one", 0): [Point("one", 0, 1, 12.5, 0.25)]}


def test_best_and_last_are_means_over_seeds() -> None:
    curves = [[Point("one", seed, at, value, 1) for at, value in enumerate(values)] for seed, values in
              enumerate(([10, 30, 20], [50, 40, 30]))]  # fmt: skip
    assert (common.best(curves), common.last(curves)) == (40, 25)


def test_a_run_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    settings = EXPERIMENT.settings()["one"].resolved(run={"threads": 1})
    job = Job("one", settings, tmp_path / "cut", 2, None)
    whole = common.made(replace(job, folder=tmp_path / "whole", rounds=4))
    assert [point.round for point in whole] == [1, 2, 3, 4]
    assert common.made(job) == whole[:2]
    assert common.made(replace(job, rounds=4)) == whole


def test_only_what_the_data_lacks_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path)]

    def run(*more: str) -> common.Runs:
        return common.run(EXPERIMENT, common.parser_of("", ["small"]).parse_args(["small", *names, *more]), "command")

    cut = run("--only", "one", "--rounds", "1")
    assert {key: len(points) for key, points in cut.items()} == {("one", 0): 1}
    both = run()
    assert {key: len(points) for key, points in both.items()} == {("one", 0): 4, ("two", 0): 4}
    assert both["one", 0][0].accuracy == pytest.approx(cut["one", 0][0].accuracy)
    capsys.readouterr()
    assert run() == common.read(tmp_path / "small.csv")
    assert capsys.readouterr().err == ""


def test_the_command_of_the_data_says_what_was_asked() -> None:
    parser = common.parser_of("", ["small"])
    given = parser.parse_args(["small", "--seeds", "3", "--rounds", "20", "--only", "a row", "--jobs", "2"])
    written = "python experiments/papers/some.py small --seeds 3 --rounds 20 --only 'a row'"
    assert common.command_of("some.py", given) == written
    assert common.command_of("some.py", parser.parse_args(["small"])).endswith("some.py small --seeds 1")


def test_a_row_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    given = common.parser_of("", ["small"]).parse_args(
        ["small", "--rounds", "1", "--jobs", "2", "--out", str(tmp_path / "runs"), "--results", str(tmp_path)]
    )
    place = tmp_path / "runs" / "small" / "one-0"
    place.mkdir(parents=True)
    (place / "trace.h5").write_text("not a trace")
    with pytest.raises(SystemExit, match=r"^one: "):
        common.run(EXPERIMENT, given, "command")
    assert list(common.read(tmp_path / "small.csv")) == [("two", 0)]


def test_a_point_is_checked(tmp_path: Path) -> None:
    (point, *_) = common.made(Job("one", EXPERIMENT.settings()["one"], tmp_path / "run", 1, None))
    common.write(EXPERIMENT, {("one", 0): [point]}, tmp_path / "small.csv", "command")
    common.check(EXPERIMENT, tmp_path, None)
    other = replace(point, accuracy=point.accuracy + 1)
    common.write(EXPERIMENT, {("one", 0): [other]}, tmp_path / "small.csv", "command")
    with pytest.raises(SystemExit, match="another point"):
        common.check(EXPERIMENT, tmp_path, None)


@needs("mnist")
@pytest.mark.parametrize("name", ["noise", pytest.param("table-1", marks=pytest.mark.full)])
def test_a_point_of_the_data_is_re_made(name: str) -> None:
    fed_spa.main([name, "--check"])


@pytest.mark.parametrize(
    ("name", "section"),
    [
        ("table-1", "## Fed-SPA's table on MNIST"),
        ("noise", "### At which noise the accuracy is reached"),
        ("figure-1", "### Figure 1 on MNIST"),
    ],
)
def test_the_page_shows_what_the_command_prints(
    name: str, section: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fed_spa.main([name, "--show", "--out", str(tmp_path)])
    printed = capsys.readouterr().out.splitlines()
    text = PAGE.read_text().partition(section)[2].partition("\n##")[0]
    assert [line for line in text.splitlines() if line.startswith("|")] == [
        line for line in printed if line.startswith("|")
    ]
    if name == "noise":
        assert printed[-1] in " ".join(text.split())


def test_what_the_page_says_of_table_1() -> None:
    runs = common.by_label(common.read(RESULTS / "fed-spa-table-1.csv"))
    assert list(runs) == list(fed_spa.TABLES["table-1"])
    assert abs(common.best(runs["FedAvg"]) - 96.87) < 1
    best = [common.best(runs[f"Fed-SPA, p = {ratio}"]) for ratio in ("0.05", "0.1", "0.4", "1")]
    assert best == sorted(best, reverse=True)
    assert (round(best[0]), round(best[-1])) == (23, 20)
    assert (round(best[-1]), round(common.best(runs["DP-Fed"]))) == (20, 24)  # docs/limits.md
    apart = []
    for ratio in ("0.05", "0.1", "0.4", "1"):
        curves = [max(point.accuracy for point in points) for points in runs[f"Fed-SPA, p = {ratio}"]]
        assert len(curves) == 3
        apart.append(max(curves) - min(curves))
    assert (round(min(apart)), round(max(apart))) == (8, 18)
    ahead = [common.best(runs[label]) - fed_spa.TABLES["table-1"][label].accuracy for label in runs if "cpSGD" in label]
    assert 2.5 < min(ahead) < max(ahead) < 5.5


def test_what_the_page_says_of_figure_1() -> None:
    runs = common.by_label(common.read(RESULTS / "fed-spa-figure-1.csv"))
    found = {
        epsilon: {ratio: common.best(runs[fed_spa.tradeoff_label(ratio, epsilon)]) for ratio in fed_spa.RATIOS}
        for epsilon in fed_spa.EPSILONS
    }
    every = [accuracy for row in found.values() for accuracy in row.values()]
    assert (len(every), round(min(every)), round(max(every))) == (20, 13, 25)
    assert found[64][0.1] == pytest.approx(best("no noise", "median", "0.01"), abs=0.01)
    behind = []
    for epsilon in (0.5, 1):
        *others, whole = sorted(found[epsilon].values(), reverse=True)
        assert whole == found[epsilon][1.0]
        behind += [other - whole for other in others]
    assert (round(min(behind), 1), round(max(behind), 1)) == (0.9, 8.6)
    for epsilon in (16, 64):
        others = [accuracy for ratio, accuracy in found[epsilon].items() if ratio != 0.4]
        assert found[epsilon][0.4] > max(others) > max(others) - 1 < min(others)
    table = common.by_label(common.read(RESULTS / "fed-spa-table-1.csv"))
    for ratio in (0.1, 0.4, 1.0):  # the same settings, made by another command
        label = fed_spa.tradeoff_label(ratio, 1)
        assert common.best(runs[label]) == common.best(table[f"Fed-SPA, p = {ratio:g}"][:1])


def best(reading: str, clip: str, server_step: str) -> float:
    runs = common.by_label(common.read(RESULTS / "fed-spa-noise.csv"))
    return common.best(runs[fed_spa.label_of(reading, clip, server_step)])


def test_what_the_page_says_in_words() -> None:
    runs = common.by_label(common.read(RESULTS / "fed-spa-noise.csv"))
    ((end, *_),) = [points[::-1] for points in runs[fed_spa.label_of("c in place of G", "0.2", "0.01")]]
    assert f"{end.epsilon:,.0f}"[:4] == "40,8"
    assert best("c in place of G", "0.2", "0.01") >= fed_spa.SWEPT
    assert best("no noise", "0.2", "0.01") == pytest.approx(best("c in place of G", "0.2", "0.01"), abs=0.2)
    median = [best(reading, "median", "0.01") for reading in ("theorem 1", "c in place of G", "no noise")]
    assert max(median) - min(median) < 0.5
    assert best("theorem 1", "0.02", "0.01") == pytest.approx(best("theorem 1", "median", "0.01"), abs=1)
    at_the_theorem = [best("theorem 1", clip, "0.01") for clip in fed_spa.CLIPS]
    assert [round(min(at_the_theorem)), round(max(at_the_theorem))] == [14, 21]
    for clip, low, high in (("0.2", 91.7, 92.3), ("0.02", 80.7, 80.8)):
        pair = [best(reading, clip, "0.01") for reading in ("c in place of G, 1/B twice", "c in place of G")]
        assert [round(one, 1) for one in pair] == [low, high]
    assert round(best("c in place of G", "0.2", "0.1"), 1) == 90.0
    (falling,) = runs[fed_spa.label_of("no noise", "0.2", "0.1")]
    later = [point.accuracy for point in falling[6:]]
    assert round(falling[5].accuracy, 1) == 65.7
    text = " ".join(PAGE.read_text().split())
    assert f"at {min(later):.0f} to {max(later):.0f}% in all later ones" in text
    for words in ("costs an ε of 40,800, and not 1", "within 0.2 points", "$\\sqrt{d} = 148$ times less"):
        assert words in text


def test_what_the_page_says_of_cifar_10() -> None:
    """After a tenth of the rounds FedAvg has learned, and what the theorem's noise protects is near chance."""
    runs = common.by_label(common.read(RESULTS / "fed-spa-table-2.csv"))
    last = {label: found[0][-1] for label, found in runs.items()}
    assert {point.round for point in last.values()} == {20}
    assert last["FedAvg"].accuracy > 45
    assert max(last[label].accuracy for label in ("DP-Fed", "Fed-SPA, p = 0.1")) < 14
    page = (ROOT / "docs" / "papers.md").read_text()
    for label, point in last.items():
        assert f"| {label} | {fed_spa.TABLES['table-2'][label].accuracy:.2f} | " in page
        assert f"| {point.accuracy:.2f} | {fed_spa.TABLES['table-2'][label].cost_mb:.2f}" in page
