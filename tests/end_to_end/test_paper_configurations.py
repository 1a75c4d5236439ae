"""The configurations of the papers, and their first rounds on real data."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import airfl.learning.task
from airfl.config import Settings, load_rows, load_settings
from airfl.core.preflight import check_recipe
from airfl.core.round import run_round
from airfl.core.state import State, World
from airfl.core.world import build_world
from airfl.errors import UserError
from airfl.learning.evaluation import evaluate
from airfl.learning.tasks.datasets import find_dataset
from airfl.learning.tasks.models import MODELS
from tests.conftest import DEMO, ROOT

CONFIGS = ROOT / "experiments" / "configs" / "papers"
PAPERS, CIFAR10, FEMNIST = (
    sorted(CONFIGS.glob("*.toml")),
    CONFIGS / "pfels-cifar10.toml",
    CONFIGS / "pfels-femnist.toml",
)
FOLDERS = [Path(os.environ.get("AIRFL_DATA") or "/nowhere"), ROOT / "data"]


@pytest.mark.parametrize("path", [*PAPERS, *sorted(CONFIGS.parent.glob("*.toml"))], ids=lambda path: path.stem)
def test_every_row_of_a_configuration_can_be_built(path: Path) -> None:
    for row in load_rows(path):
        check_recipe(row.settings)


def test_they_say_what_section_8_1_says() -> None:
    cifar10, femnist = load_settings(CIFAR10), load_settings(FEMNIST)
    for settings in (cifar10, femnist):
        assert (settings.run.devices, settings.run.selected, settings.delta) == (1000, 32, 1e-3)
        assert (settings.local.batch_size, settings.local.epochs, settings.local.momentum) == (50, 5, 0.9)
        channel, power = settings.channel, settings.power
        assert channel.fading == "exponential"
        assert (channel.mean_gain, channel.min_gain, channel.max_gain) == (0.02, 1e-4, 0.1)
        assert (channel.noise_std, power.max_snr_db, power.spacing) == (1.0, [2.0, 15.0], "linear")
        assert power.limit == "round_energy"
        assert settings.scheme.name == "pfels"
        assert not settings.scheme.rescale
    assert (cifar10.run.rounds, cifar10.privacy.epsilon, cifar10.scheme.ratio) == (2000, 1.5, 0.3)
    assert (femnist.run.rounds, femnist.privacy.epsilon, femnist.scheme.ratio) == (1000, 2.0, 0.5)
    assert MODELS[cifar10.task.model].parameters == 9_750_922
    assert MODELS[femnist.task.model].parameters == 11_192_746
    assert (femnist.task.partition, femnist.task.min_samples) == ("writer", 100)
    # C = eta tau C_1 with the clipping thresholds that the paper found, tau = 5 and a rate of its grid.
    assert cifar10.local.update_bound == pytest.approx(cifar10.local.learning_rate * 5 * 1.0)
    assert femnist.local.update_bound == pytest.approx(femnist.local.learning_rate * 5 * 10.0)
    assert cifar10.local.learning_rate in (0.01, 0.05, 0.1)
    assert femnist.local.learning_rate in (0.001, 0.02, 0.05)


def needs(dataset: str) -> pytest.MarkDecorator:
    """Skips where the official data is not at hand."""
    there = find_dataset(dataset, FOLDERS) is not None
    return pytest.mark.skipif(not there, reason=f"AIRFL_DATA is unset or has no {dataset}")


def small_world(settings: Settings, monkeypatch: pytest.MonkeyPatch, samples: int = 50) -> World:
    """The world of the settings, evaluated on few samples: the models take milliseconds a sample."""
    monkeypatch.setattr(airfl.learning.task, "TRAINING_SAMPLES", samples)
    world = build_world(settings, torch.device("cpu"), FOLDERS)
    test = replace(world.task.test, inputs=world.task.test.inputs[:samples], targets=world.task.test.targets[:samples])
    return replace(world, task=replace(world.task, test=test))


CASES = [
    pytest.param(CIFAR10, ("run.selected=6",), marks=[needs("cifar10"), pytest.mark.full], id="cifar10"),
    pytest.param(FEMNIST, ("run.devices=360", "run.selected=4"), marks=needs("femnist"), id="femnist"),
]


@pytest.mark.full
@pytest.mark.parametrize(("path", "smaller"), CASES)
def test_the_loss_falls_in_first_rounds(path: Path, smaller: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ideal FedAvg with fewer devices a round than the paper's 32: their number is time, not kind."""
    settings = load_settings(path, ["scheme.name=fedavg", "run.rounds=2", "run.evaluate_every=1", *smaller])
    world = small_world(settings, monkeypatch, samples=500)
    assert world.trainer.engine in ("dense", "layers", "layers-parallel", "loop")
    state = State(0, world.model.initial())
    first = evaluate(world.model, state.parameters, world.task)
    for _ in range(2):
        state, record = run_round(world, state)
        assert np.all(record["update_norm"] <= settings.local.update_bound * (1 + 1e-5))
    assert record["train_loss"] < first.train_loss - 0.01
    assert record["test_loss"] < first.test_loss - 0.01


@pytest.mark.parametrize(
    ("path", "smaller"),
    [
        pytest.param(DEMO, ("run.devices=100",), id="demo"),  # the same with a model of 25,450 parameters
        pytest.param(CIFAR10, (), marks=[needs("cifar10"), pytest.mark.full], id="cifar10"),
        pytest.param(FEMNIST, ("run.devices=360",), marks=[needs("femnist"), pytest.mark.full], id="femnist"),
    ],
)
def test_pfels_sends_what_a_budget_says(path: Path, smaller: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """One round as it stands in the file, but for fewer devices and epochs: k of d entries, and noise of its size."""
    two = ("run.rounds=2", "run.evaluate_every=2", "run.selected=2", "local.epochs=1", "local.engine=layers")
    settings = load_settings(path, [*two, *smaller])
    world = small_world(settings, monkeypatch)
    before = world.model.initial()
    state, record = run_round(world, State(0, before))
    entries = int(settings.scheme.ratio * world.model.dimension)
    assert record["message_length"] == record["resource_elements"] == entries
    changed = int((state.parameters != before).sum())
    assert entries * 0.999 < changed <= entries
    # The decoded noise has l2 norm sigma_0 sqrt(k)/(r beta) (shared by all k entries): it dwarfs the updates.
    noise = settings.channel.noise_std * entries**0.5 / (2 * record["alignment_coefficient"])
    assert record["aggregation_error"] ** 0.5 == pytest.approx(noise, rel=max(0.01, 5 / (2 * entries) ** 0.5))


@needs("femnist")
def test_fewer_writers_than_devices_are_refused_with_their_number() -> None:
    with pytest.raises(UserError, match=r"run\.devices = 1,000, but .* \d+ writers with at least 100 samples"):
        build_world(load_settings(FEMNIST), torch.device("cpu"), FOLDERS)


# Fewer devices a round, or fewer steps, than in the file: their number is time, not kind. The plays stand in for LEAF's
# Shakespeare, the sample in the repository for the whole of Fashion-MNIST.
FEW_OF_PLAYS = ("run.devices=20", "run.selected=1", "local.epochs=0", "local.steps=2")
FIRST_ROUNDS: dict[str, tuple[Any, ...]] = {  # whose data, how many rounds, what is smaller
    "fed-spa-mnist": ("mnist", 2, "run.selected=3", "local.steps=10"),
    "fed-spa-cifar10": ("cifar10", 1, "run.selected=2", "local.steps=1", "local.engine=layers"),
    "soteriafl-a9a": ("a9a", 2),
    "soteriafl-mnist": ("mnist", 2, "run.chunk=1"),  # of 6,000 samples a device
    "fed-smp-fashion-mnist": ("fashion-mnist-sample", 1, "run.devices=400", "run.selected=2", "local.epochs=1"),
    "fed-smp-shakespeare": ("shakespeare-plays", 1, *FEW_OF_PLAYS),
}


SLOW = ("fed-spa-cifar10", "fed-smp-fashion-mnist")
"""Whose models are large; their schemes run on other data in short."""


def rows_of(name: str) -> dict[str, Settings]:
    dataset, _, *smaller = FIRST_ROUNDS[name]
    rows = [row.settings for row in load_rows(CONFIGS / f"{name}.toml", smaller)]
    # Of cpSGD, which has a hundred devices a round, ten.
    few = {row.scheme.name: {"selected": min(row.run.selected, 10)} for row in rows}
    return {row.scheme.name: row.resolved(task={"dataset": dataset}, run=few[row.scheme.name]) for row in rows}


ROWS = [
    pytest.param(name, scheme, marks=[needs(FIRST_ROUNDS[name][0]), *([pytest.mark.full] if name in SLOW else [])])
    for name in FIRST_ROUNDS
    for scheme in rows_of(name)
]


@pytest.mark.parametrize(("name", "scheme"), ROWS)
def test_every_scheme_of_it_runs_its_first_rounds(name: str, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody is heard, and the model moves and stays finite."""
    settings = rows_of(name)[scheme]
    world = small_world(settings, monkeypatch)
    state = State(0, world.model.initial(), world.scenario.memory)
    for _ in range(FIRST_ROUNDS[name][1]):
        before = state.parameters
        state, record = run_round(world, state)
        assert record["heard"] == settings.run.selected
        assert record["uplink_bits"] > 0
        assert torch.isfinite(state.parameters).all()
        assert (state.parameters != before).any()
