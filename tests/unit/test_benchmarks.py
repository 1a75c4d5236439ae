"""The benchmarks: workloads, peers' results, operations, tables, slopes, and a short run of each script. No timing."""

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import airfl
from airfl.analysis.profile import STAGES
from airfl.analysis.results import read_results
from airfl.config import load_settings
from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.learning.tasks.datasets import DATASETS
from airfl.learning.tasks.models import MODELS
from airfl.learning.work import GradientEstimate, LocalSgd, PerturbedSgd
from airfl.schemes.names import SCHEMES
from airfl.schemes.recipe import Problem
from tests.conftest import DEMO, ROOT, small_settings
from tests.in_this_process import points_here as points_here
from tests.local_steps import own_rows
from tests.small_data import OF_PEOPLE

FOLDER = ROOT / "experiments" / "benchmarks"
OWN = {"mnist-cnn": "cnn", "fmnist-cnn": "cnn-fashion", "text-lstm": "lstm"}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a benchmark by its name, as a script in its folder would."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER / "peers"))
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(FOLDER)) or name == "peers":
            del sys.modules[name]


def test_workloads_have_the_parameters_and_the_shapes_that_are_said(load: Any) -> None:
    """And the data are always the same."""
    for workload in load("peers.workload").WORKLOADS.values():
        model, small = workload.model(), replace(workload, devices=5)
        assert sum(parameter.numel() for parameter in model.parameters()) == workload.parameters, workload.name
        inputs, labels = small.data()
        assert (inputs.shape[2:], inputs.shape[:2]) == (workload.shape, labels.shape)
        assert labels.shape == (5, workload.samples)
        assert inputs.dtype == (torch.uint8 if workload.text else torch.float32)
        assert int(labels.max()) < workload.classes
        assert torch.equal(inputs, small.data()[0])
        assert model(inputs[0]).shape == (workload.samples, workload.classes)


@pytest.mark.parametrize("name", OWN)
def test_models_are_those_of_the_project(load: Any, name: str) -> None:
    """Same parameters, same logits."""
    workload = load("peers.workload").WORKLOADS[name]
    model, own = workload.model(), MODELS[OWN[name]]().build()
    assert workload.parameters == MODELS[OWN[name]].parameters
    torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(model.parameters()), own.parameters())
    inputs = torch.randint(0, 90, (3, *workload.shape), generator=torch.Generator().manual_seed(1))
    inputs = inputs if workload.text else inputs.float() / 90
    torch.testing.assert_close(own(inputs), model(inputs))


def test_a_result_is_found_among_other_lines(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    peers = load("peers.workload")
    result = peers.Result("loop", "digits-mlp", 1.85, 10, 0.5, "a note")
    print("INFO: starting")
    result.print()
    print("(worker pid=1) ending")
    assert peers.Result.read(capsys.readouterr().out) == result
    with pytest.raises(ValueError, match="run the peer alone"):
        peers.Result.read("INFO: starting\nTraceback ...")


def test_the_first_round_is_not_part_of_the_rate(load: Any) -> None:
    peers = load("peers.workload")
    work = peers.WORKLOADS["digits-mlp"]
    result = peers.rate_between("pfl", work, begin=100.0, ends=[107.0, 107.5, 108.0, 108.5])
    assert (result.rate, result.rounds, result.first_s) == (2.0, 3, 7.0)
    calls: list[None] = []
    counted = peers.time_rounds("loop", work, lambda: calls.append(None), least_s=0.0)
    assert (len(calls), counted.rounds) == (work.rounds + 1, work.rounds)


def test_operations_of_a_round_by_hand(load: Any) -> None:
    """2 x multiplications forward, as many for the weights, as many for the inputs but in the first layer."""
    machine, workloads = load("machine"), load("peers.workload").WORKLOADS
    mlp = 4 * 64 * 64 + 6 * 64 * 10
    assert machine.operations_of(workloads["digits-mlp"]) == 32 * 5 * 50 * mlp
    first, others = 10 * 24 * 24 * 25, 20 * 8 * 8 * 250 + 320 * 50 + 50 * 10
    assert machine.operations_of(workloads["mnist-cnn"]) == 32 * 2 * 50 * (4 * first + 6 * others)
    # The embedding learns, so that the LSTM's inputs have a gradient.
    step = 4 * 256 * (8 + 256) + 4 * 256 * (256 + 256)
    assert machine.operations_of(workloads["text-lstm"]) == 32 * 20 * 6 * (80 * step + 256 * 90)
    layer = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
    (found,) = machine.products_of(layer, torch.zeros(1, 4, 9, 9))
    assert (found.multiplications, found.input_gradient) == (8 * 5 * 5 * (2 * 3 * 3), False)


def test_limits_are_speed_over_operations(load: Any) -> None:
    machine, work = load("machine"), load("peers.workload").WORKLOADS["fmnist-cnn"]
    limits = machine.rate_limits(work, machine.Machine(product=100.0, linear=None, copy=1.0))
    assert limits == {"limit by torch.mm": pytest.approx(1e11 / machine.operations_of(work))}
    both = machine.rate_limits(work, machine.Machine(product=100.0, linear=200.0, copy=1.0))
    assert list(both.values()) == pytest.approx([limits["limit by torch.mm"], 2 * limits["limit by torch.mm"]])


def test_rows_by_hand(load: Any) -> None:
    """And a table is aligned Markdown."""
    speed, rates = load("speed"), {"airfl": [80.0, 90.0, 100.0], "pfl": [1.5, 1.5, 1.5], "loop": [3.0, 3.0, 3.0]}
    rates["jax"] = [45.0]
    airfl, pfl, loop, _, limit = speed.rows_of(rates, {"limit": [400.0, 450.0, 500.0]})
    assert airfl.cells == ["airfl", "90", "22%", "60 x", "2 x", "30 x", "20.0%"]
    assert (pfl.best_peer, loop.best_peer, loop.loop) == (1.0, 2.0, 1.0)
    assert limit.share == 1.0
    two, *_ = speed.rows_of({"airfl": [8.0], "pfl": [1.0], "flower": [2.0]}, {"limit": [10.0]})
    assert (two.best_peer, two.jax, two.loop) == (4.0, None, None)
    (alone, _) = speed.rows_of({"airfl": [90.0]}, {"limit": [450.0]})
    assert alone.cells[3:] == ["-", "-", "-", "20.0%"]
    table = ["|       | rate |", "| ----- | ---: |", "| airfl |   90 |", "| a     |    1 |"]
    assert speed.markdown("Title:", ["", "rate"], [["airfl", "90"], ["a", "1"]]).splitlines() == ["Title:", "", *table]


def test_peers_take_turns_and_those_that_are_missing_are_left_out(
    load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    speed, peers = load("speed"), load("peers.workload")
    asked: list[str] = []

    def run_peer(peer: str, workload: str, python: str, overrides: list[str]) -> Any:
        assert overrides == (["run.chunk=4"] if peer == "airfl" else [])
        asked.append(peer)
        if peer == "flower":
            raise ValueError("flower on digits-mlp ends with 1: no more memory")
        return peers.Result(peer, workload, {"airfl": 60.0, "loop": 2.0}[peer] + len(asked), 10, 0.1)

    monkeypatch.setattr(speed, "run_peer", run_peer)
    monkeypatch.setattr(speed.machine, "measure", lambda: speed.machine.Machine(100.0, None, 20.0))
    monkeypatch.setitem(speed.PACKAGES, "pfl", "no_such_package")
    monkeypatch.setitem(speed.PACKAGES, "jax", "no_such_package")
    monkeypatch.setitem(speed.PACKAGES, "flower", "json")
    text = speed.compare_peers(["digits-mlp"], dict.fromkeys(speed.PACKAGES, sys.executable), 3, ["run.chunk=4"])
    assert asked == ["airfl", "flower", "loop"] * 3
    assert re.search("pfl skipped.*no more memory; skipped in turn 3", capsys.readouterr().out, re.DOTALL)
    rows = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| ")]
    assert [[cell.strip() for cell in row] for row in rows[2:4]] == [["airfl", "64", "9%"], ["loop", "8", "75%"]]


def test_a_peer_that_fails_says_why(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    speed = load("speed")
    monkeypatch.setattr(speed, "FOLDER", tmp_path)
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "a_peer.py").write_text("raise SystemExit('no such workload')")
    with pytest.raises(ValueError, match=r"a on w failed .*no such workload"):
        speed.run_peer("a", "w", sys.executable)


def test_the_schemes_are_sorted_by_what_their_devices_compute(load: Any) -> None:
    speed, kinds = load("speed"), {}
    for name in SCHEMES:
        settings = load_settings(DEMO, [f"scheme.name={name}"])
        kinds[name] = type(settings.scheme.recipe(Problem(settings, 25_450, settings.scheme.carrier, samples=9)).local)
    assert {name for name, kind in kinds.items() if kind is GradientEstimate} == speed.ONE_STEP
    assert {name for name, kind in kinds.items() if kind is PerturbedSgd} == speed.PER_SAMPLE - speed.ONE_STEP
    assert kinds[speed.PLAIN] is LocalSgd


def test_a_peers_settings_and_task_are_those_of_its_workload(load: Any) -> None:
    peer, workloads = load("airfl_peer"), load("peers.workload").WORKLOADS
    for name, work in workloads.items():
        small = replace(work, devices=40)
        settings, task = peer.settings_of(small, ["run.chunk=4"]), peer.task_of(small)
        assert (settings.run.chunk, settings.local.epochs, settings.run.selected) == (4, work.epochs, 32)
        assert (settings.scheme.name, settings.local.update_bound) == ("wfl-p", 1.0)
        scenario = build_scenario(settings, work.parameters, np.ones(40))
        of_sum = 32 * plan_round(scenario, 0, scenario.memory).link.link_budget().noise_std
        assert 0.01 < of_sum < 1.0, name  # the peers' is 0.1
        assert task.partition.sizes.tolist() == [work.samples] * 40
        assert len(task.train) == 40 * work.samples
        inputs, labels = small.data()
        own = own_rows(task, 7)
        assert torch.equal(task.train.inputs[own], inputs[7])
        assert torch.equal(task.train.targets[own], labels[7])
        vectors = [torch.nn.utils.parameters_to_vector(one.parameters()) for one in (task.model, work.model())]
        assert torch.equal(*vectors), name


def test_a_peers_round_by_stages_is_all_of_it(load: Any) -> None:
    peer = load("airfl_peer")
    small = replace(load("peers.workload").WORKLOADS["digits-mlp"], devices=40)
    world = peer.world_of(peer.settings_of(small, ["local.engine=layers"]), peer.task_of(small), torch.device("cpu"))
    stages = peer.stages_of(world, 3)
    assert tuple(stages) == STAGES
    assert 0 < stages["local training"] < sum(stages.values())


def test_slopes_and_widths(load: Any) -> None:
    scaling = load("scaling")
    places = [10.0, 100.0, 1000.0, 10_000.0]
    assert scaling.slope(places, [3 * place**1.5 for place in places]) == pytest.approx(1.5)
    assert scaling.slope(places, [99.0, 2.0, 20.0, 200.0]) == pytest.approx(1.0)
    assert scaling.decades([0.02, 3.0, 40.0]) == pytest.approx((0.01, 100.0))
    for parameters in (10_000, 1_000_000, 10_000_000):
        assert 75 * scaling.width_for(parameters) + 10 == pytest.approx(parameters, rel=0.01)
    assert all(np.diff([point.place for point in scaling.POINTS if point.varied == axis]).min() > 0 for axis in "rdN")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak can be reset on Linux only")
def test_the_peak_of_memory_counts_from_its_reset(load: Any) -> None:
    code = (
        "import numpy, scaling; a = numpy.ones(30_000_000); del a; before = scaling.reset_peak_mb();"
        "b = numpy.ones(10_000_000); print(scaling.peak_mb() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, check=True)
    assert 60 < float(done.stdout) < 90


def shortly(
    load: Any, monkeypatch: pytest.MonkeyPatch, name: str, constants: dict[str, Any], words: tuple[str, ...] = ()
) -> Any:
    """Import a benchmark, make it short by these constants and words of its command line."""
    script = load(name)
    for constant, value in constants.items():
        monkeypatch.setattr(script, constant, value)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    return script


SHORT: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "machine": ({"SIZE": 32, "COPY_FLOATS": 1000, "REPEATS": 1}, (), ("matrix product", "digits-mlp", "text-lstm")),
    "random_numbers": ({}, ("--count", "4096", "--turns", "1"), ("uniform", "normal")),
    "replay": (
        {"TURNS": 1, "DEVICES": 2, "SUBCARRIERS": 24, "ROUNDS": 2, "PATHS": 3, "RUN": ("run.devices=100",)},
        (),
        ("2 devices x 24 subcarriers", "interpolated", "selective, drawn"),
    ),
    "rounds": (
        {"TURNS": 1, "ROUNDS": 1, "ENGINES": ("layers", "loop"), "MODELS": {"mlp": 1}, "ENGINE": "layers"},
        (),
        ("plain loop over clients", "engine layers", "wfl-pdp"),
    ),
    "selective_channels": (
        {"TURNS": 1, "DEVICES": 2, "SUBCARRIERS": 24, "SYMBOLS": 2, "MODELS": ("tapped-line", "tdl-a")},
        (),
        ("2 devices x 24 subcarriers", "tdl-a"),
    ),
    "superposition": ({"DEVICES": 80}, ("--smaller", "100000"), ("80 devices x 100", "selective channel")),
}
"""Script -> constants and words that make it short, and what it prints."""


FULL: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "budget_and_data": ({"TURNS": 1, "DATASETS": {"mnist": DATASETS["mnist"]}}, (), ("pfels-femnist fedavg",)),
    "large_round": (
        {"ROUNDS": 1},
        ("--without-training", "task.model=cnn-cifar10", "run.selected=2", "run.chunk=2"),
        ("local training", "peak memory"),
    ),
    "privacy": ({}, ("--rounds", "2", "--only", "rdp"), ("rdp", "epsilon")),
    "speed": ({}, ("--turns", "1", "--workloads", "digits-mlp", "--peers", "airfl", "loop"), ("| airfl", "| loop")),
}
"""Those that take longer."""


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(name, marks=pytest.mark.full) for name in FULL)])
def test_a_script_runs_shortly(
    load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    constants, words, told = (SHORT | FULL)[name]
    script, threads = shortly(load, monkeypatch, name, constants, words), torch.get_num_threads()
    try:
        script.main(list(words)) if name == "large_round" else script.main()
    finally:
        torch.set_num_threads(threads)
    printed = capsys.readouterr().out
    assert [word for word in told if word not in printed] == [], printed


def test_a_trace_is_timed(load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    short = (*load("traces").LONG, "run.rounds=2", "run.devices=20")
    shortly(load, monkeypatch, "traces", {"TURNS": 1, "LONG": short}).main([])
    assert "2 rounds" in capsys.readouterr().out


def test_costs_of_a_point_are_measured_and_drawn(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = shortly(load, monkeypatch, "scaling", {"LEAST_S": 0.0, "LEAST_ROUNDS": 1, "OPENINGS": 1, "ROWS": 40})
    point = script.Point("r", selected=2, parameters=1000, devices=10)
    cost = script.measure(point)
    assert (cost.varied, cost.place) == ("r", 2)
    assert cost.seconds > 0
    costs = [replace(cost, varied=axis, place=place) for axis in script.AXES for place in (1, 10, 100)]
    script.draw([replace(one, memory_mb=float(one.place)) for one in costs], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"scaling.png", "scaling.pdf"}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The labels of the runs in the folders that `airfl results` is called with, which are read instead."""
    labels: list[list[str]] = []
    run = subprocess.run

    def results(command: list[str], **options: Any) -> Any:
        if "results" not in command:
            return run(command, **options)
        found = read_results(Path(command[-1]))
        assert not found.unreadable
        return labels.append([one.label for one in found.runs])

    monkeypatch.setattr(subprocess, "run", results)
    return labels


@pytest.mark.usefixtures("points_here")
def test_the_copies_of_a_point_that_are_listed_can_be_read(load: Any, listed: list[list[str]], tmp_path: Path) -> None:
    """Values that are not those of the trace would be refused."""
    airfl.sweep(small_settings(*OF_PEOPLE), {"scheme.ratio": [0.3]}, out=tmp_path / "one")
    assert load("sweeps")._listing(tmp_path / "one", tmp_path / "listed", 3) > 0
    assert listed == [["copy 0000", "copy 0001", "copy 0002"]]


@pytest.mark.full
def test_the_overhead_of_sweeps_is_measured(
    load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], listed: list[list[str]]
) -> None:
    words = ("--points", "4", "--rounds", "1", "--turns", "1", "--listed", "2")
    shortly(load, monkeypatch, "sweeps", {}, words).main()
    assert [len(labels) for labels in listed] == [2]
    assert "airfl results, 2 points" in capsys.readouterr().out


def test_every_script_is_run_shortly() -> None:
    """gpu.py in test_gpu_benchmark.py."""
    assert {path.stem for path in FOLDER.glob("*.py")} == {*SHORT, *FULL, "gpu", "scaling", "sweeps", "traces"}
