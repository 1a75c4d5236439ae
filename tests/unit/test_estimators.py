"""Gradient estimates against per-sample gradients by plain autograd, on data of four unequal devices."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from airfl.config import Settings
from airfl.learning.batches import NOBODY, independent_batches
from airfl.learning.dense.library import load_library
from airfl.learning.estimators import ROUNDS_BETWEEN_MEANS, GradientTrainer
from airfl.learning.flat import FlatModel
from airfl.learning.task import DividedTask, Samples
from airfl.learning.work import Estimator, GradientEstimate
from airfl.runtime import philox
from airfl.runtime.store import Store
from airfl.runtime.streams import Purpose, Streams
from tests.local_steps import CPU, Applied, divided_task, own_rows, point, sample_gradient

STREAMS = Streams(5)
ENGINES = {"penalised": "vmap", "linear": "layers" if load_library() is None else "dense", "conv": "layers"}
SIZES, ALL = np.array([5, 12, 20, 3]), np.arange(4)
BATCH, G = 4, 2.0
ESTIMATORS: tuple[Estimator, ...] = ("sgd", "gd", "svrg", "saga")


def close(found: Tensor, wanted: Tensor) -> None:
    """The same but for rounding of sums of numbers around 1."""
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-6)


class Penalised(nn.Sequential):
    """A model with SoteriaFL's nonconvex penalty of its last weights."""

    def penalty(self, parameters: dict[str, Tensor]) -> Tensor:
        """0.2 sum x^2/(1 + x^2)."""
        squares = parameters["1.weight"].square()
        return 0.2 * (squares / (1 + squares)).sum()


def recurrent(kind: type[nn.RNNBase]) -> nn.Module:
    """A recurrent layer over the rows of an input; vmap has no rule for any."""
    both = nn.ModuleList([kind(3, 2, batch_first=True), nn.Linear(2, 3)])  # type: ignore[call-arg, arg-type]
    return Applied(both, lambda both, x: both[1](both[0](x[:, 0])[0][:, -1]))


def tied() -> nn.Module:
    """A linear layer that a sample goes through twice."""
    return Applied(nn.Linear(6, 6), lambda layer, x: layer(layer(x.flatten(1)).tanh())[:, :3])


def build(name: str) -> nn.Module:
    """Models small enough for a loop over samples; inputs are [1, 2, 3]."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return {
            "conv": lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(4, 3)),
            "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)),
            "penalised": lambda: Penalised(nn.Flatten(), nn.Linear(6, 3)),
            "tied": tied,
            "gru": lambda: recurrent(nn.GRU),
            "lstm": lambda: recurrent(nn.LSTM),
        }[name]()


def task_of(model: str) -> DividedTask:
    """Forty samples of four devices."""
    return divided_task(build(model), SIZES.tolist())


def trainer_of(task: DividedTask, work: GradientEstimate, chunk: int = 0, **local: str) -> GradientTrainer:
    """Of four devices, all selected, with these settings of [local]."""
    run = {"devices": 4, "selected": 4, "rounds": 1, "chunk": chunk}
    given = {"steps": 1, "batch_size": BATCH, "clip_norm": 1.0, **local}
    settings = Settings.model_validate({"run": run, "local": given})
    trainer = work.build(settings.local, settings.run, task, STREAMS, CPU)
    assert isinstance(trainer, GradientTrainer)
    return trainer


class Reference:
    """Algorithm 3 word by word for one device, keeping points w and w_j instead of gradients at them."""

    def __init__(self, task: DividedTask, device: int, work: GradientEstimate) -> None:
        self.task, self.device, self.work = task, device, work
        self.rows = own_rows(task, device)
        self.snapshot: Tensor | None = None
        self.points: list[Tensor] = []

    def mean(self, points: list[Tensor], rows: list[int]) -> Tensor:
        """Mean over samples of the gradient of each at its own point."""
        bound = self.work.clip_norm if self.work.clip == "sample" and self.work.clip_norm else math.inf
        gradients = [sample_gradient(self.task, x, row, bound) for x, row in zip(points, rows, strict=True)]
        return torch.stack(gradients).mean(dim=0)

    def estimate(self, x: Tensor, round_index: int) -> Tensor:
        """The estimate of a round; the state moves on."""
        plan = independent_batches(STREAMS, round_index, ALL, SIZES, 20, 1, BATCH)[self.device, 0]
        batch = plan[plan != NOBODY].tolist()
        rows = [self.rows[j] for j in batch]
        m, b = len(self.rows), len(batch)
        if self.work.estimator == "gd":
            found = self.mean([x] * m, self.rows)
        elif self.work.estimator == "sgd":
            found = self.mean([x] * b, rows)
        elif self.work.estimator == "svrg":
            w = x if self.snapshot is None else self.snapshot
            found = self.mean([x] * b, rows) - self.mean([w] * b, rows) + self.mean([w] * m, self.rows)
            coin = STREAMS.generator(Purpose.SNAPSHOT, round_index).random() < self.work.refresh
            self.snapshot = x if coin else w
        else:
            self.points = self.points or [x] * m
            at_table = self.mean([self.points[j] for j in batch], rows)
            found = self.mean([x] * b, rows) - at_table + self.mean(self.points, self.rows)
            for j in batch:
                self.points[j] = x
        if self.work.clip == "batch" and self.work.clip_norm:
            found = found * min(1.0, self.work.clip_norm / float(found.norm()))
        return found


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def tasks() -> dict[str, DividedTask]:
    """The same data for every model."""
    return {name: task_of(name) for name in ("linear", "conv", "penalised", "gru")}


def run(trainer: GradientTrainer, task: DividedTask, rounds: int) -> list[Tensor]:
    """Updates of all four devices in rounds with a moving x, chunk by chunk."""
    store, chunks = Store(), np.split(ALL, range(trainer.chunk, 4, trainer.chunk))
    return [torch.cat([trainer.updates(point(task, t), chunk, t, store) for chunk in chunks]) for t in range(rounds)]


def estimates() -> Iterator[Any]:
    """Every model with every clip and every estimator; each pair of two of them in `make test`."""
    for m, model in enumerate(("linear", "conv", "penalised")):
        for c, (clip_norm, clip) in enumerate(((None, "sample"), (G, "sample"), (G, "batch"))):
            for e, estimator in enumerate(ESTIMATORS):
                pair = (m + c + e) % 3 == 0
                yield pytest.param(model, clip_norm, clip, estimator, marks=() if pair else pytest.mark.full)


@pytest.mark.parametrize(("model", "clip_norm", "clip", "estimator"), list(estimates()))
def test_estimates_are_those_of_the_algorithm(
    tasks: dict[str, DividedTask], model: str, clip_norm: float | None, clip: Any, estimator: Estimator
) -> None:
    """Over four rounds, in which the snapshot moves and stays (coins of this seed: see the assertion)."""
    coins = [STREAMS.generator(Purpose.SNAPSHOT, t).random() < 0.5 for t in range(3)]
    assert len(set(coins)) == 2
    task, work = tasks[model], GradientEstimate(estimator, clip_norm, clip, refresh=0.5)
    references, trainer = [Reference(task, device, work) for device in range(4)], trainer_of(task, work)
    assert (trainer.chunk, trainer.engine) == (4, ENGINES[model])
    for t, updates in enumerate(run(trainer, task, 4)):
        close(-updates, torch.stack([reference.estimate(point(task, t), t) for reference in references]))


def test_the_clip_of_these_tests_bites_some_samples_and_not_all(tasks: dict[str, DividedTask]) -> None:
    """What the test above rests on."""
    for model in ("linear", "conv", "penalised"):
        norms = [float(sample_gradient(tasks[model], point(tasks[model], 0), row).norm()) for row in range(40)]
        assert 5 < sum(norm > G for norm in norms) < 39


def test_a_device_that_comes_later_starts_with_its_own_snapshot(tasks: dict[str, DividedTask]) -> None:
    """Devices of one chunk with different snapshots."""
    task, work, store = tasks["linear"], GradientEstimate("svrg", G, refresh=0.0), Store()
    trainer, references = trainer_of(task, work), [Reference(task, device, work) for device in range(4)]
    for t, devices in enumerate(([0, 2], [1], [0, 1, 2, 3])):
        wanted = torch.stack([references[device].estimate(point(task, t), t) for device in devices])
        close(-trainer.updates(point(task, t), np.array(devices), t, store), wanted)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("model", ["linear", "conv"])
def test_a_device_does_not_depend_on_its_chunk(tasks: dict[str, DividedTask], model: str, estimator: Estimator) -> None:
    work = GradientEstimate(estimator, G, refresh=0.5, noise_std=0.1)
    together, alone = (run(trainer_of(tasks[model], work, chunk), tasks[model], 3) for chunk in (4, 1))
    close(torch.stack(together), torch.stack(alone))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_same_seed_gives_the_same_run(tasks: dict[str, DividedTask], estimator: Estimator) -> None:
    """And neither x nor the model is changed by it."""
    task, work = tasks["linear"], GradientEstimate(estimator, G, refresh=0.5, noise_std=0.1)
    built, x = FlatModel(task.model).initial(), point(task, 0)
    assert torch.equal(*(torch.stack(run(trainer_of(task, work), task, 3)) for _ in range(2)))
    trainer_of(task, work).updates(x, ALL, 0, Store())
    assert torch.equal(x, point(task, 0))
    assert torch.equal(FlatModel(task.model).initial(), built)


def test_noise_is_that_of_its_address_on_every_entry(tasks: dict[str, DividedTask]) -> None:
    """n = 4 devices x 43 entries x 40 rounds: mean and variance within 5 standard errors."""
    task, std = tasks["linear"], 0.25
    quiet, loud = (trainer_of(task, GradientEstimate("sgd", G, noise_std=s)) for s in (0.0, std))
    noise = torch.stack([loud.updates(point(task, 0), ALL, t, Store()) for t in range(40)])
    noise -= torch.stack([quiet.updates(point(task, 0), ALL, t, Store()) for t in range(40)])
    n = noise.numel()
    assert n == 4 * 43 * 40
    assert abs(float(noise.mean())) < 5 * std / math.sqrt(n)
    assert abs(float(noise.square().mean()) / std**2 - 1) < 5 * math.sqrt(2 / n)
    drawn = philox.normals(STREAMS.address(Purpose.PRIVACY_NOISE, 7), [2], 43)
    np.testing.assert_allclose(noise[7, 2].numpy(), -std * drawn[0], atol=1e-6)


@pytest.mark.parametrize("clip", ["sample", "batch"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimates_keep_to_their_bounds(tasks: dict[str, DividedTask], estimator: Estimator, clip: Any) -> None:
    """Inputs a hundred times as large, so that every gradient is clipped; of samples three may be added."""
    task = tasks["linear"]
    task = replace(task, train=Samples(100 * task.train.inputs, task.train.targets))
    norms = torch.stack(run(trainer_of(task, GradientEstimate(estimator, G, clip, 0.5)), task, 3)).norm(dim=2)
    terms = 3 if clip == "sample" and estimator in ("svrg", "saga") else 1
    assert 0.2 * G < float(norms.max()) <= terms * G * (1 + 1e-5)


def test_replacing_a_sample_moves_a_mean_of_clipped_gradients_by_2g_over_b(tasks: dict[str, DividedTask]) -> None:
    """Of the last device, whose 3 samples are its batch; and the clipped batch gradient by more than that."""
    task = tasks["linear"]
    row, moved = own_rows(task, 3)[0], {}
    inputs = task.train.inputs.clone()
    inputs[row] *= -1000
    other = replace(task, train=Samples(inputs, task.train.targets))
    for clip in ("sample", "batch"):
        work = GradientEstimate("sgd", 0.05, clip)
        pair = [trainer_of(t, work).updates(point(task, 0), ALL[3:], 0, Store()) for t in (task, other)]
        moved[clip] = float((pair[0] - pair[1]).norm())
    assert moved["sample"] <= 2 * 0.05 / 3 * (1 + 1e-5)
    assert 2 * 0.05 / 3 < moved["batch"] <= 2 * 0.05


def test_the_coin_is_one_for_all_devices(tasks: dict[str, DividedTask]) -> None:
    """Whether they are in a chunk or not; probability 0 never moves a snapshot, 1 always."""
    task = tasks["linear"]
    for refresh in (0.0, 0.5, 1.0):
        trainer, store = trainer_of(task, GradientEstimate("svrg", G, refresh=refresh), 2), Store()
        moves: list[bool] = []
        for t in range(12):
            for chunk in (ALL[:2], ALL[2:]):
                trainer.updates(point(task, t), chunk, t, store)
            if t == 0:  # the snapshot is x
                continue
            here = {bool(torch.equal(store.rows["snapshot"][device], point(task, t))) for device in range(4)}
            assert len(here) == 1
            moves += here
        assert set(moves) == {0.0: {False}, 0.5: {False, True}, 1.0: {True}}[refresh]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_is_kept_is_what_was_said(tasks: dict[str, DividedTask], estimator: Estimator) -> None:
    """Names and sizes, of the devices that took part and of nobody else."""
    task, work, store = tasks["linear"], GradientEstimate(estimator, G, refresh=0.5), Store()
    for t in range(3):
        trainer_of(task, work).updates(point(task, t), ALL[1:3], t, store)
    kept = {device: work.device_state(43, int(SIZES[device])) for device in (1, 2)}
    assert set(store.rows) == {one.name for one in kept[1]}
    for name, rows in store.rows.items():
        wanted = {device: next(one.numbers for one in own if one.name == name) for device, own in kept.items()}
        assert {device: value.numel() for device, value in rows.items()} == wanted
        # Nothing larger is kept, of which a row is a part: tables of several devices may share what they fill together.
        storages = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in rows.values()}
        assert sum(storages.values()) == 4 * sum(wanted.values())
    found = sum(value.nbytes for rows in store.rows.values() for value in rows.values())
    assert found == sum(one.nbytes for own in kept.values() for one in own)


def test_the_mean_of_a_saga_table_stays_its_mean(tasks: dict[str, DividedTask]) -> None:
    """Brought up to date over rounds, and taken afresh in some: a wrong mean is mended there."""
    task, store = tasks["linear"], Store()
    trainer = trainer_of(task, GradientEstimate("saga", G))
    for t in range(ROUNDS_BETWEEN_MEANS - 40, ROUNDS_BETWEEN_MEANS):
        trainer.updates(point(task, t), ALL, t, store)
    tables, means = store.rows["saga_table"], store.rows["saga_mean"]
    for device in range(4):
        close(means[device], tables[device].mean(dim=0))
        means[device] += 1
    trainer.updates(point(task, 0), ALL, ROUNDS_BETWEEN_MEANS, store)
    for device in range(4):
        close(means[device], tables[device].mean(dim=0))


def test_evaluations_are_counted(tasks: dict[str, DividedTask]) -> None:
    """A snapshot that moves costs a whole gradient, but not in a device's first round, where it is x already."""
    task, b = tasks["linear"], np.minimum(SIZES, BATCH)
    first = {"sgd": b, "gd": SIZES, "svrg": 2 * b + SIZES, "saga": b + SIZES}
    later = {"sgd": b, "gd": SIZES, "svrg": 2 * b, "saga": b}
    for estimator in ESTIMATORS:
        trainer, store = trainer_of(task, GradientEstimate(estimator, G)), Store()
        for t, wanted in enumerate((first[estimator], later[estimator])):
            trainer.updates(point(task, t), ALL[:3], t, store)
            np.testing.assert_array_equal(trainer.evaluations(ALL[:3], t), wanted[:3])
        np.testing.assert_array_equal(trainer.evaluations(ALL, 2), later[estimator])
    trainer, store = trainer_of(task, GradientEstimate("svrg", G, refresh=1.0)), Store()
    for t in range(2):
        trainer.updates(point(task, t), ALL, t, store)
        np.testing.assert_array_equal(trainer.evaluations(ALL, t), first["svrg"])


@pytest.mark.parametrize("engine", ["auto", "compiled", "layers", "vmap", "loop"])
def test_an_engine_can_be_forced(tasks: dict[str, DividedTask], engine: str) -> None:
    """And gives the same numbers."""
    task, work = tasks["conv"], GradientEstimate("saga", G, noise_std=0.1)
    forced = trainer_of(task, work, engine=engine)
    assert forced.engine == (engine if engine in ("vmap", "loop") else "layers")
    assert forced.chunk == (1 if engine == "loop" else 4)
    close(torch.stack(run(forced, task, 3)), torch.stack(run(trainer_of(task, work), task, 3)))


def test_a_model_that_nothing_computes_in_batches_is_computed_in_a_loop(tasks: dict[str, DividedTask]) -> None:
    task, work, store = tasks["gru"], GradientEstimate("svrg", G, refresh=0.5), Store()
    with warnings.catch_warnings(action="ignore"):  # what vmap has no rule for is known without the tests' strictness
        trainer = trainer_of(task, work)
    assert (trainer.chunk, trainer.engine) == (1, "loop")
    reference = Reference(task, 2, work)
    for t in range(3):
        close(-trainer.updates(point(task, t), ALL[[2]], t, store)[0], reference.estimate(point(task, t), t))


def test_saga_keeps_to_its_memory(tasks: dict[str, DividedTask], monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk's gradients of samples, 4 x 43 numbers a device, are no more than a slice."""
    monkeypatch.setattr("airfl.learning.estimators.SLICE_BYTES", 3 * 4 * 4 * 43)
    assert trainer_of(tasks["linear"], GradientEstimate("saga", G)).chunk == 3
    assert trainer_of(tasks["linear"], GradientEstimate("sgd", G)).chunk == 4
