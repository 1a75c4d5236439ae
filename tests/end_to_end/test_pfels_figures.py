"""experiments/papers/pfels.py: its radios, rows and data, and what it and docs/papers.md say of them."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import airfl
from airfl.config import Settings
from airfl.learning.chosen_task import load_data
from airfl.learning.task import build_task
from airfl.learning.tasks.datasets import data_folders
from airfl.learning.tasks.models import MODELS
from airfl.privacy.pfels import theorem_3_factor
from airfl.runtime.streams import Streams
from experiments.papers import common, pfels
from experiments.papers.common import RESULTS, Job, Point
from experiments.papers.pfels import BOTH, CIFAR10, CONTENTS, FEDAVG, FEMNIST, RADIOS, WFL_P, Data
from tests.conftest import ROOT
from tests.end_to_end.test_paper_configurations import needs

PAGE = ROOT / "docs" / "papers.md"
EACH = pytest.mark.parametrize("data", BOTH, ids=lambda data: data.name)
EXPERIMENTS = [pfels.experiment(data, name) for data in BOTH for name in RADIOS]
KEPT = [one for one in EXPERIMENTS if one.file(RESULTS).exists()]


def noise_over_update(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Return sqrt(k) sigma_0 / (r beta sqrt(p) C) of every round, and its energy."""
    budget = airfl.link_budget(settings)
    ratio = budget.entries_per_round / budget.dimension
    norm = math.sqrt(budget.entries_per_round) / (settings.run.selected * budget.alignment_coefficient)
    return norm / (math.sqrt(ratio) * settings.local.update_bound), budget.round_energy


@EACH
def test_models_are_those_of_the_table(data: Data) -> None:
    paper = airfl.load_settings(common.CONFIGURATIONS / f"{data.configuration}.toml")
    small = airfl.load_settings(common.CONFIGURATIONS / f"{data.configuration}.toml", data.changes)
    assert MODELS[paper.task.model].parameters == data.dimension
    assert MODELS[small.task.model].parameters == data.small
    assert paper.run.devices == pytest.approx(data.fewer * small.run.devices)
    assert paper.run.rounds == small.run.rounds


@EACH
def test_radios_keep_what_they_say(data: Data) -> None:
    """In every round, with the paper's number of devices, so that the same devices meet the same channels."""
    found = {}
    for name in RADIOS:
        epsilon = pfels.epsilon_here(data, name, data.epsilon) / data.fewer
        changes = [*data.changes[:1], *pfels.radio(data, name), f"privacy.epsilon={epsilon!r}", "run.rounds=50"]
        file = common.CONFIGURATIONS / f"{data.configuration}.toml"
        found[name] = noise_over_update(airfl.load_settings(file, changes))
    paper = noise_over_update(airfl.load_settings(file, ["run.rounds=50"]))
    assert len({*np.round(paper[0], 6)}) > 10
    np.testing.assert_allclose(found["same-ratio"][0], paper[0], rtol=1e-3)  # k is rounded down
    np.testing.assert_allclose(found["same-energy"][1], paper[1], rtol=1e-3)
    less = math.sqrt(data.dimension / data.small)
    np.testing.assert_allclose(less * found["same-energy"][0], paper[0], rtol=1e-3)
    assert f"{less:.3g}" in (pfels.__doc__ or "")


def test_what_the_page_says_of_the_papers_noise() -> None:
    for data, mean in ((CIFAR10, 22), (FEMNIST, 27)):
        file = common.CONFIGURATIONS / f"{data.configuration}.toml"
        ratio, _ = noise_over_update(airfl.load_settings(file, ["run.rounds=200"]))
        assert round(float(ratio.mean())) == mean
        assert float(ratio.min()) > 9
    assert "22 (CIFAR-10) and 27 (FEMNIST) times" in " ".join(PAGE.read_text().split())


def test_epsilon_for_fewer_devices_keeps_the_alignment_coefficient() -> None:
    """C_2 of eq. 21 is in proportion to r/N if delta = 1/N."""
    factors = [theorem_3_factor(1.0, 32, devices, 1 / devices, 1.0) for devices in (1000, 360)]
    here = pfels.epsilon_here(FEMNIST, "same-energy", 2.0)
    assert here / factors[1] == pytest.approx(2.0 / factors[0])


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_rows_have_the_settings_that_their_labels_say(experiment: common.Experiment) -> None:
    data = CIFAR10 if "cifar10" in experiment.name else FEMNIST
    name = experiment.name.partition(f"{data.name}-")[2]
    settings = experiment.settings()
    assert {*experiment.published} <= {*settings}
    for label, one in settings.items():
        scheme, *rest = label.split(", ")
        assert one.scheme.name == scheme.lower()
        for part in rest:
            value = float(part.split()[-1]) if part != "ideal link" else 0.0
            if part.startswith("p ="):
                assert one.scheme.values()["ratio"] == value
            elif part.startswith("ε ="):
                assert one.privacy.epsilon == pytest.approx(pfels.epsilon_here(data, name, value))
            elif part.startswith("server step"):
                assert one.server.learning_rate == value
        if "server step" not in label:
            assert one.server.learning_rate == 1
    asked = {label for which, labels in CONTENTS.values() if data in which for label in labels(data)}
    assert {*settings} == asked - ({FEDAVG} if name == "same-ratio" else set())


def runs_of(values: dict[str, float], data: Data, rounds: int) -> common.Runs:
    return {(label, 0): [Point(label, 0, rounds, accuracy, 9.0, 1.0, 2e11)] for label, accuracy in values.items()}


def test_statements_follow_from_the_runs() -> None:
    ours, private, control = pfels.pfels(0.3, 1.5), pfels.wfl_pdp(1.5), pfels.wfl_pdp(1.5, 0.3)
    found = common.by_label(runs_of({ours: 60.0, WFL_P: 50.0, private: 61.0, control: 59.0}, CIFAR10, 2000))
    assert pfels.statements(CIFAR10, found) == [
        f"{ours} is ahead of WFL-P: yes (+10.00 ± 1.40 points)",
        f"{ours} is ahead of {private}: not told apart (-1.00 ± 1.38 points)",
        f"{ours} is ahead of {control}: not told apart (+1.00 ± 1.39 points)",
        f"WFL-P is ahead of {private}: no (-11.00 ± 1.40 points)",
    ]
    values = {pfels.pfels(0.1, 1.5): 10.0, ours: 60.0, pfels.pfels(1.0, 1.5): 50.0}
    assert pfels.statements(CIFAR10, common.by_label(runs_of(values, CIFAR10, 2000))) == [
        "Accuracy increases from p = 0.1 to 0.3: yes (+50.00 ± 1.15 points)",
        "Accuracy decreases from p = 0.3 to 1: yes (+10.00 ± 1.40 points)",
    ]


def test_the_margin_is_that_of_samples_and_seeds() -> None:
    """Against accuracies that are drawn: of two equal rows, 4.6% are told apart by two standard errors."""
    drawn = 100 * np.random.default_rng(1).binomial(500, 0.7, (4000, 2)) / 500
    apart = [abs(one - other) > common.margin([one], [other], 500) for one, other in drawn]
    assert 0.035 < np.mean(apart) < 0.06
    seeds, other = [70.0, 72.0, 74.0], [60.0, 60.0]
    shares = 1e4 * (0.72 * 0.28 + 0.6 * 0.4) / 500
    assert common.margin(seeds, other, 500) == pytest.approx(2 * math.sqrt(shares + 4 / 3))


def test_the_best_of_several_needs_a_larger_margin() -> None:
    """Of six equal rows the best exceeds a seventh as rarely as a single one would exceed it at most."""
    drawn = 100 * np.random.default_rng(2).binomial(500, 0.7, (6000, 7)) / 500
    first, among = drawn[:, :6].max(axis=1), np.array([common.margin([70.0], [70.0], 500, count) for count in (1, 6)])
    ahead = [float(np.mean(first - drawn[:, 6] > margin)) for margin in among]
    assert ahead[0] > 0.07
    assert 0.01 < ahead[1] < 0.0228


@needs("femnist")
def test_test_samples_are_counted() -> None:
    settings = next(iter(pfels.experiment(FEMNIST, "same-energy").settings().values()))
    task = build_task(settings, load_data(settings.task, data_folders(None), None), Streams(settings.run.seed), None)
    assert len(task.test) == FEMNIST.test_samples


def test_the_table_shows_both_numbers() -> None:
    ours = pfels.pfels(0.3, 1.5)
    text = pfels.text_of(CIFAR10, "same-energy", [ours], runs_of({ours: 60.0}, CIFAR10, 1000))
    assert f"| {ours} | 76.42 | 60.00 | 60.00 | 2 | 2.55 | 300 | 600 | 9 | 1000 of 2000 | 1 |" in text


def test_a_radio_of_which_no_row_was_run_has_no_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, label in (("same-energy", pfels.pfels(0.1, 1.5)), ("same-ratio", WFL_P)):
        one = pfels.experiment(CIFAR10, name)
        common.write(one, runs_of({label: 60.0}, CIFAR10, 2000), one.file(tmp_path), "by hand")
    given = ["figure-3", "--show", "--data-set", "cifar10", "--results", str(tmp_path), "--out", str(tmp_path)]
    pfels.main(given)
    printed = capsys.readouterr().out
    assert "cifar10, same-energy" in printed
    assert "same-ratio" not in printed


def test_energy_and_loss_are_those_of_the_trace(tmp_path: Path) -> None:
    changes = [
        "task.dataset=fashion-mnist-sample", "task.model=mlp", "run.rounds=4", "run.devices=10", "run.selected=3",
        "run.evaluate_every=2", "local.batch_size=10", "task.min_samples=0",
    ]  # fmt: skip
    settings = airfl.load_settings(common.CONFIGURATIONS / "pfels-cifar10.toml", changes)
    points = common.made(Job("one", settings, tmp_path / "run", 4, None, common.EXTRAS))
    trace = airfl.open_trace(tmp_path / "run")
    energy = np.cumsum(trace["energy_normalised"].to_numpy())
    assert [point.round for point in points] == [2, 4]
    for point in points:
        assert point.energy == pytest.approx(energy[point.round - 1])
        assert point.train_loss == pytest.approx(float(trace["train_loss"][point.round - 1]))
    again = common.made(replace(Job("one", settings, tmp_path / "cut", 2, None, common.EXTRAS), rounds=2))
    assert again == points[: len(again)]
    resumed = common.made(Job("one", settings, tmp_path / "cut", 4, None, common.EXTRAS))
    assert resumed == points


@pytest.mark.parametrize("figure", CONTENTS)
def test_every_figure_is_drawn(figure: str, tmp_path: Path) -> None:
    which, labels = CONTENTS[figure]
    for data in which:
        one = pfels.experiment(data, "same-energy")
        runs = {
            (label, 0): [Point(label, 0, rounds, 10.0 + rounds, 9.0, 1.0, 1e9 * rounds) for rounds in (20, 40)]
            for label in labels(data)
        }
        common.write(one, runs, one.file(tmp_path), "by hand")
    drawn = pfels.draw(figure, which, RADIOS, tmp_path, tmp_path / "figures")
    assert drawn is not None
    assert drawn.stat().st_size > 10_000
    assert pfels.draw(figure, which, ["same-ratio"], tmp_path, tmp_path) is None


@pytest.mark.parametrize("experiment", KEPT, ids=lambda one: one.name)
def test_data_has_rows_of_the_experiment_alone(experiment: common.Experiment) -> None:
    settings, lines = experiment.settings(), experiment.file(RESULTS).read_text().splitlines()
    last = max(points[-1].round for points in common.read(experiment.file(RESULTS)).values())
    whole = last == next(iter(settings.values())).run.rounds
    for command in (line for line in lines if line.startswith("# python")):
        assert whole or f"--rounds {last} --radio {experiment.name.partition('-')[2].partition('-')[2]}" in command
    for (label, _), points in common.read(experiment.file(RESULTS)).items():
        every = settings[label].run.evaluate_every
        assert [point.round for point in points if point.round % every == 0] == [
            every * (place + 1) for place in range(points[-1].round // every)
        ]


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    printed = []
    for command in (
        ["table-2"],
        ["table-3"],
        ["figure-3", "--data-set", "femnist"],
        ["figure-4", "--data-set", "femnist"],
    ):
        pfels.main([*command, "--show", "--out", str(tmp_path)])
        printed += capsys.readouterr().out.splitlines()
    section = PAGE.read_text().partition("## PFELS, accuracy with small models")[2].partition("\n## ")[0]
    wanted = [line for line in printed if line.startswith("|") or line.startswith("- ")]
    assert wanted
    for line in wanted:
        assert line in section.splitlines()


def test_what_the_page_says_of_the_curves() -> None:
    runs = common.by_label(common.read(pfels.experiment(CIFAR10, "same-energy").file(RESULTS)))
    ours, control, wfl_p, private = (
        {point.round: point.accuracy for point in runs[label][0]}
        for label in (pfels.pfels(0.3, 1.5), pfels.wfl_pdp(1.5, 0.3), WFL_P, pfels.wfl_pdp(1.5))
    )
    assert max(abs(ours[at] - control[at]) for at in ours) < 2
    assert min(wfl_p[at] - ours[at] for at in ours if at <= 200) > 2
    for curve in (ours, control):
        assert curve[500] > max(curve[at] for at in curve if at <= 400)
    for data in BOTH:
        found = common.by_label(common.read(pfels.experiment(data, "same-energy").file(RESULTS)))
        last = {label: common.last(found[label]) for label in pfels.of_table(data)}
        ahead = [last[FEDAVG] - value for label, value in last.items() if label != FEDAVG]
        assert 4 <= min(ahead) <= max(ahead) < 6.7
    for curve in (wfl_p, private):
        assert all(40 < curve[at] < 44 for at in curve if at >= 160)


def test_what_the_page_says_of_figure_3() -> None:
    runs = common.by_label(common.read(pfels.experiment(FEMNIST, "same-energy").file(RESULTS)))
    ratios, epsilon = (0.1, 0.3, 0.5, 1.0), FEMNIST.epsilon_of_ratios
    ours = {ratio: runs[pfels.pfels(ratio, epsilon)][0][-1] for ratio in ratios}
    control = {ratio: runs[pfels.wfl_pdp(epsilon, ratio)][0][-1] for ratio in ratios}
    assert all(abs(ours[ratio].accuracy - control[ratio].accuracy) < 1 for ratio in ratios)
    assert control[0.1].accuracy < control[0.3].accuracy < control[0.5].accuracy
    assert f"{ours[0.5].accuracy - ours[1.0].accuracy:.2f}" == "0.15"
    energies = [{ratio: point.energy or 0.0 for ratio, point in found.items()} for found in (ours, control)]
    saved = [[1 - energy[ratio] / energy[1.0] for ratio in (0.1, 0.3)] for energy in energies]
    assert [round(100 * share) for share in saved[0]] == [57, 32]
    assert max(map(abs, saved[1])) < 0.02
    # At p = 1 nothing is left out, and both schemes are the same.
    assert ours[1.0].accuracy == control[1.0].accuracy


def test_what_the_page_says_of_figure_4() -> None:
    runs = common.by_label(common.read(pfels.experiment(FEMNIST, "same-energy").file(RESULTS)))
    for label, more in ((lambda epsilon: pfels.pfels(0.5, epsilon), 2.1), (pfels.wfl_pdp, 1.7)):
        points = [runs[label(epsilon)][0][-1] for epsilon in (1.0, 2.0, 4.0, 9.0)]
        found = [point.accuracy for point in points]
        assert max(found) - min(found) < 0.4
        assert round((points[-1].energy or 0.0) / (points[0].energy or 1.0), 1) == more
    unlimited, without = runs[pfels.wfl_pdp(9.0)][0], runs[pfels.WFL_P][0]
    assert [replace(point, label="") for point in unlimited] == [replace(point, label="") for point in without]


@pytest.mark.full  # twenty rounds each
@pytest.mark.parametrize(
    "table", [pytest.param("table-2", marks=needs("cifar10")), pytest.param("table-3", marks=needs("femnist"))]
)
def test_a_point_of_the_data_is_re_made(table: str) -> None:
    """In a process of its own, which takes 1.5 GB."""
    command = [sys.executable, "experiments/papers/pfels.py", table, "--check", "--radio", "same-energy"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert made.stdout.count("again") == 1


@pytest.mark.parametrize(("data", "chance", "best"), [(CIFAR10, 10.0, 18.11), (FEMNIST, 100 / 62, 3.0)])
def test_at_the_papers_ratio_of_noise_nothing_is_learned(data: Data, chance: float, best: float) -> None:
    runs = common.by_label(common.read(RESULTS / f"pfels-{data.name}-same-ratio.csv"))
    assert len(runs) == 4
    for points in (found[0] for found in runs.values()):
        assert abs(points[-1].accuracy - chance) < 0.9
        assert max(point.accuracy for point in points) <= best


@pytest.mark.parametrize("data", [CIFAR10, FEMNIST])
def test_a_mask_lowers_what_pfels_pays_below_its_control(data: Data) -> None:
    """At the same epsilon of the claim, and after the same rounds."""
    runs = common.by_label(common.read(RESULTS / f"pfels-{data.name}-same-energy.csv"))
    claim = f"ε = {data.epsilon:g}"
    pays = runs[f"PFELS, p = {data.ratio:g}, {claim}"][0][-1].epsilon
    assert pays < runs[f"WFL-PDP, {claim}"][0][-1].epsilon
