"""Samples of generated devices: the same for any number of devices, whether they are held or generated when needed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import airfl
from airfl import simulation
from airfl.analysis.budget import link_budget
from airfl.config import Settings, load_settings
from airfl.errors import UserError
from airfl.learning import generated
from airfl.learning.evaluation import evaluate
from airfl.learning.generated import Population, SamplesOnDemand, generate
from airfl.learning.samples import Samples
from airfl.learning.task import build_task
from airfl.learning.tasks.datasets import GaussianClasses, GeneratedDataset, Synthetic, load_dataset
from airfl.runtime.streams import Streams
from tests.conftest import DEMO, small_settings
from tests.refusals import one_line
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import world

GENERATED: list[GeneratedDataset] = [
    Synthetic(sizes="equal", device_samples=12),
    GaussianClasses(classes_count=3, features=5, concentration=0.5, shift_std=1.0, device_samples=12),
]
CLASSES = ("task.dataset=gaussian-classes", "task.partition=writer", "task.model=softmax", "task.public_samples=0")
"""Overrides for runs with 20 features in 10 classes."""


def settings_of(*overrides: str) -> Settings:
    few = ("run.devices=30", "run.selected=6", "run.rounds=3", "run.evaluate_every=1", "task.device_samples=18")
    return load_settings(DEMO, [*CLASSES, *few, "local.epochs=2", "local.batch_size=4", *overrides])


def population(dataset: GeneratedDataset, devices: int, seed: int = 0, held: float = 0.0) -> Population:
    return Population(dataset, Streams(seed), devices, held)


@pytest.mark.parametrize("dataset", [*GENERATED, Synthetic()], ids=repr)
def test_a_device_has_the_same_samples_however_many_devices_there_are(dataset: GeneratedDataset) -> None:
    few, many = population(dataset, 10), population(dataset, 1_000_000)
    np.testing.assert_array_equal(few.sizes, many.sizes[:10])
    for part in ("train", "test"):
        for one, other in zip(few.samples(9, part), many.samples(9, part), strict=True):
            np.testing.assert_array_equal(one, other)
    inputs, _ = many.samples(9, "train")
    assert len(inputs) == many.sizes[9]
    assert not np.array_equal(inputs[:10], many.samples(8, "train")[0][:10])
    assert not np.array_equal(inputs[:10], population(dataset, 10, seed=1).samples(9, "train")[0][:10])


@pytest.mark.parametrize("dataset", GENERATED, ids=repr)
def test_samples_are_held_out_of_those_for_training(dataset: GeneratedDataset) -> None:
    """A quarter of 12, and at least one is left; the test samples, a ninth of 12 rounded up, stay."""
    whole, held = population(dataset, 5), population(dataset, 5, held=0.25)
    for at in (0, 1):
        together = np.concatenate([held.samples(3, "train")[at], held.samples(3, "validation")[at]])
        np.testing.assert_array_equal(together, whole.samples(3, "train")[at])
        np.testing.assert_array_equal(held.samples(3, "test")[at], whole.samples(3, "test")[at])
    assert [len(held.samples(3, part)[1]) for part in ("train", "validation", "test")] == [9, 3, 2]
    assert population(dataset, 5, held=0.999).sizes.tolist() == [1] * 5


@pytest.mark.parametrize("dataset", GENERATED, ids=repr)
def test_samples_on_demand_read_like_those_that_are_held(
    dataset: GeneratedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = generate(population(dataset, 20), 30)
    monkeypatch.setattr(generated, "STORED_BYTES", 0)
    monkeypatch.setattr(generated, "TEST_DEVICES", 7)
    lazy = generate(population(dataset, 20), 30)
    assert isinstance(stored.train, Samples)
    assert isinstance(lazy.train, SamplesOnDemand)
    rows = torch.from_numpy(np.random.default_rng(0).integers(len(stored.train), size=(3, 4, 5)))
    for wanted in (rows, rows[0, 0, 0], slice(90, 100), 0, rows[:0]):
        for part in ("inputs", "targets"):
            expected = getattr(stored.train, part)[wanted]
            torch.testing.assert_close(getattr(lazy.train, part)[wanted], expected, rtol=0, atol=0)
    for part in ("inputs", "targets"):
        read, held = getattr(lazy.train, part), getattr(stored.train, part)
        assert (read.shape, read.dtype, read.dim(), read.device, len(read)) == (
            held.shape, held.dtype, held.dim(), held.device, len(held)
        )  # fmt: skip
    assert len(stored.test) == 20 * 2
    assert len(lazy.test) == 7 * 2
    torch.testing.assert_close(lazy.test.inputs, stored.test.inputs[: 7 * 2], rtol=0, atol=0)
    # Public samples are those of devices 20, 21 and 22, the last one's cut.
    assert len(stored.public) == 30
    further = population(dataset, 23).samples(22, "train")[0][:6]
    np.testing.assert_array_equal(stored.public.inputs[24:].numpy(), further)


def test_the_training_loss_is_of_the_first_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of 20 devices, or 21 evenly spaced ones of the first 7, whether they are held or generated to be read."""
    built = world(settings_of("run.devices=20"))
    held = len(built.task.partition.indices)
    assert built.task.loss_rows.tolist() == list(range(held))
    monkeypatch.setattr("airfl.learning.task.TRAINING_SAMPLES", 21)
    monkeypatch.setattr("airfl.learning.task.TEST_DEVICES", 7)
    stored = replace(built.task)
    end = int(stored.partition.offsets[7])
    assert stored.loss_rows.tolist() == [place * end // 21 for place in range(21)]
    monkeypatch.setattr(generated, "STORED_BYTES", 0)
    lazy = world(settings_of("run.devices=20")).task
    assert isinstance(lazy.train, SamplesOnDemand)
    losses = [evaluate(built.model, built.model.initial(), task).train_loss for task in (stored, lazy)]
    assert losses[0] == losses[1]
    assert lazy.train.kept(lazy.loss_rows) is lazy.train.kept(lazy.loss_rows.copy())
    other = lazy.train.kept(lazy.loss_rows[:5] + 1)
    torch.testing.assert_close(other.inputs, stored.train.inputs[lazy.loss_rows[:5] + 1], rtol=0, atol=0)


@pytest.mark.parametrize("engine", ["dense", "layers", "vmap", "loop"])
def test_a_run_is_the_same_with_samples_on_demand(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(f"local.engine={engine}", "task.shift_std=1.0", "task.label_concentration=0.5")
    held = simulation.run(settings, tmp_path / "held")
    monkeypatch.setattr(generated, "STORED_BYTES", 0)
    on_demand = simulation.run(settings, tmp_path / "on-demand")
    assert_same_trace(held.path, on_demand.path)


@pytest.mark.parametrize("scheme", ["soteriafl-saga", "soteriafl-svrg", "fed-spa"])
def test_so_is_one_with_gradients_of_samples(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ["scheme.gradient_clip=1.0"] if "saga" in scheme or "svrg" in scheme else ["scheme.coordinate_clip=0.1"]
    base = [*CLASSES, "run.devices=30", "run.selected=6", "run.rounds=3", "task.device_samples=18"]
    settings = small_settings(*base, f"scheme.name={scheme}", *own)
    held = simulation.run(settings, tmp_path / "held")
    monkeypatch.setattr(generated, "STORED_BYTES", 0)
    assert_same_trace(held.path, simulation.run(settings, tmp_path / "on-demand").path)


@pytest.mark.parametrize(
    "of_data",
    [CLASSES[:3], ("task.partition=shared", "task.dataset=a9a-sample", "task.model=logistic", "local.engine=loop")],
    ids=["generated", "shared"],
)
def test_a_million_devices_train_resume_and_cost_what_was_planned(of_data: tuple[str, ...], tmp_path: Path) -> None:
    """Device samples need 2 GB, of which none are kept; the sample of a9a has 2,000 people."""
    settings = small_settings(
        *(*of_data, "task.public_samples=0", "run.devices=1000000", "run.selected=5", "run.rounds=3"),
        *("task.device_samples=20", "local.batch_size=10", "scheme.name=fedavg", "privacy.delta=1e-7"),
    )
    whole = simulation.run(settings, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        simulation.run(settings, tmp_path / "broken", progress=interrupted(after=1))
    resumed = simulation.run(settings, tmp_path / "broken", resume=True)
    assert_same_trace(whole.path, resumed.path)
    planned = link_budget(settings)
    with airfl.open_trace(whole.path) as trace:
        assert trace.sizes["population"] == 1_000_000
        assert set(trace["device_samples"].values.tolist()) == {20}
        elements = float(trace["resource_elements"].sum())
    assert planned.resource_elements == pytest.approx(elements)


def test_a_run_learns_a_task_whose_least_error_is_known(tmp_path: Path) -> None:
    """The test has 100 devices' 12 samples: accuracy below 1 - error by 5 points and 5 standard errors at most."""
    settings = settings_of(
        *("run.devices=100", "run.selected=20", "run.rounds=30", "task.device_samples=108", "scheme.name=fedavg"),
        *("scheme.link=ideal", "local.learning_rate=0.1", "local.clip_norm=10", "run.evaluate_every=30"),
    )
    done = simulation.run(settings, tmp_path / "run")
    best = 1 - GaussianClasses().least_error
    with airfl.open_trace(done.path) as trace:
        accuracy = float(trace["test_accuracy"][-1])
    deviation = np.sqrt(best * (1 - best) / 1200)
    assert best - 0.05 - 5 * deviation < accuracy < best + 5 * deviation


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["task.partition=iid"], ("task.partition", "'gaussian-classes'", "got 'iid'", "task.partition=writer")),
        (["task.partition=shared"], ("task.partition", "got 'shared'")),
        (["task.min_samples=5"], ("task.min_samples", "must be 0", "got 5")),
        (["task.model=mlp"], ("task.model", "'mlp'", "'gaussian-classes'", "models that fit: softmax")),
    ],
)
def test_settings_that_do_not_fit_are_refused(overrides: list[str], said: tuple[str, ...]) -> None:
    settings = settings_of(*overrides)
    with pytest.raises(UserError, match=one_line(*said)):
        build_task(settings, load_dataset("gaussian-classes"), Streams(0))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("task.gaussian_features=9", ("task.gaussian_features must be at least the number of classes, 10, got 9",)),
        ("task.synthetic_beta=-1", ("task.synthetic_beta", "-1")),
        ("task.class_separation=-1", ("task.class_separation", "-1")),
        ("task.label_concentration=0", ("task.label_concentration", "0")),
        ("task.device_samples=0", ("task.device_samples", "0")),
        ("task.synthetic_sizes=uniform", ("task.synthetic_sizes", "lognormal")),
    ],
)
def test_parameters_out_of_range_are_refused(override: str, said: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match=one_line(*said)):
        settings_of(override)


@pytest.mark.parametrize("scheme", ["soteriafl-sgd", "ldp-sgd", "fed-spa", "cdp-sgd"])
def test_records_that_several_devices_hold_are_not_protected(scheme: str) -> None:
    shared = ("task.partition=shared", f"scheme.name={scheme}")
    with pytest.raises(UserError, match=one_line("task.partition", "'shared'", f"'{scheme}'", "protects a record")):
        link_budget(small_settings(*shared))
    assert link_budget(small_settings(*shared[1:]))


def test_a_guarantee_for_devices_holds_with_shared_samples_too() -> None:
    shared, apart = (
        link_budget(small_settings("scheme.name=pfels", *more)) for more in (["task.partition=shared"], [])
    )
    assert shared.epsilon_round_max == apart.epsilon_round_max
