"""Batched local training against a loop over the devices with torch.optim.SGD."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.config import Settings
from airfl.learning.batches import NOBODY, BatchRule, plan_batches
from airfl.learning.flat import FlatModel
from airfl.learning.sgd import build_move, in_place, normalise
from airfl.learning.task import DividedTask, build_task
from airfl.learning.trainer import LocalTrainer
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from tests.local_steps import CPU, own_rows
from tests.small_data import few_samples

STREAMS = Streams(4)
ROUND = 2
CHOSEN = np.array([0, 2, 3, 5, 6])
ENGINES = ("vmap", "layers", "layers-parallel", "loop")
EPOCHS, STEPS = {"epochs": 2}, {"steps": 5}
pytestmark = pytest.mark.usefixtures("one_thread")


def trainer_of(settings: Settings, task: DividedTask) -> LocalTrainer:
    return LocalTrainer(settings.local, settings.run, task, STREAMS, CPU)


def settings_of(model: str, length: dict[str, int], chunk: int = 0, engine: str = "layers") -> Settings:
    """Seven devices with unequal shares of 140 samples."""
    run = {"devices": 7, "selected": 5, "chunk": chunk, "rounds": 1}
    task = {"model": model, "partition": "dirichlet", "dirichlet_alpha": 0.2}
    local = {**length, "batch_size": 8, "learning_rate": 0.05, "momentum": 0.9, "clip_norm": 1.0, "engine": engine}
    return Settings.model_validate({"run": run, "task": task, "local": local})


@pytest.fixture(scope="module")
def tasks() -> dict[str, DividedTask]:
    """The same small data for either model; some devices have less than a batch, some several."""
    raw = few_samples()
    small = replace(raw, train_inputs=raw.train_inputs[:140], train_targets=raw.train_targets[:140])
    tasks = {model: build_task(settings_of(model, EPOCHS), small, STREAMS) for model in ("mlp", "cnn")}
    sizes = tasks["mlp"].partition.sizes[CHOSEN]
    assert sizes.min() < 8 < 24 < sizes.max()
    assert len(set(sizes)) > 3
    return tasks


def global_model(task: DividedTask) -> Tensor:
    """Parameters to start from, that are not those the module was built with."""
    initial = FlatModel(task.model).initial()
    return initial + 0.01 * torch.randn(initial.shape, generator=torch.Generator().manual_seed(0))


def train_one(task: DividedTask, device: int, batches: np.ndarray, start: Tensor) -> Tensor:
    """One device's update by torch's own optimiser and autograd, batch after batch."""
    module: nn.Module = copy.deepcopy(task.model)
    nn.utils.vector_to_parameters(start.clone(), module.parameters())
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    own = np.array(own_rows(task, device))
    for batch in batches:
        if len(rows := own[batch[batch != NOBODY]]):
            inputs = (task.train.inputs[rows].float() / 255 - task.mean[0]) / task.std[0]
            optimiser.zero_grad()
            F.cross_entropy(module(inputs), task.train.targets[rows]).backward()
            optimiser.step()
    return nn.utils.parameters_to_vector(module.parameters()).detach() - start


def reference(task: DividedTask, length: dict[str, int], start: Tensor) -> Tensor:
    """The chosen devices' updates, [5, d]."""
    sizes = task.partition.sizes
    rule = BatchRule(length.get("epochs", 0), length.get("steps", 0), 8)
    plan = plan_batches(rule, STREAMS, ROUND, CHOSEN, sizes[CHOSEN], int(sizes.max()))
    return torch.stack([train_one(task, int(device), steps, start) for device, steps in zip(CHOSEN, plan, strict=True)])


def chunked_updates(trainer: LocalTrainer, start: Tensor) -> Tensor:
    """The chosen devices' updates, chunk by chunk."""
    chunks = [CHOSEN[first : first + trainer.chunk] for first in range(0, len(CHOSEN), trainer.chunk)]
    return torch.cat([trainer.updates(start, chunk, ROUND, Store()) for chunk in chunks])


@pytest.mark.parametrize(
    ("model", "length", "engines", "chunks"),
    [
        ("mlp", EPOCHS, ENGINES, (1, 3, 5)),
        ("mlp", STEPS, ENGINES, (3,)),
        ("cnn", EPOCHS, ("vmap", "layers"), (3,)),
        ("cnn", STEPS, ("layers-parallel", "loop"), (5,)),
    ],
    ids=["mlp-epochs", "mlp-steps", "cnn-epochs", "cnn-steps"],
)
def test_updates_are_those_of_plain_torch(
    tasks: dict[str, DividedTask], model: str, length: dict[str, int], engines: tuple[str, ...], chunks: tuple[int, ...]
) -> None:
    task, start = tasks[model], global_model(tasks[model])
    wanted = reference(task, length, start)
    assert wanted.norm(dim=1).min() > 0.05
    for engine, chunk in itertools.product(engines, chunks):
        trainer = trainer_of(settings_of(model, length, chunk, engine), task)
        assert (trainer.engine, trainer.chunk) == (engine, chunk)
        torch.testing.assert_close(chunked_updates(trainer, start), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("engine", ENGINES)
def test_training_changes_no_model_and_no_next_call(tasks: dict[str, DividedTask], engine: str, chunk: int) -> None:
    """Momentum starts afresh every round: the same call gives the same updates."""
    task, start = tasks["mlp"], global_model(tasks["mlp"])
    before, built = start.clone(), FlatModel(task.model).initial()
    trainer = trainer_of(settings_of("mlp", EPOCHS, chunk, engine), task)
    first = trainer.updates(start, CHOSEN[:chunk], ROUND, Store())
    assert torch.equal(start, before)
    assert torch.equal(FlatModel(task.model).initial(), built)
    assert torch.equal(trainer.updates(start, CHOSEN[:chunk], ROUND, Store()), first)
    assert not torch.equal(trainer.updates(start, CHOSEN[:chunk], ROUND + 1, Store()), first)


def stepped(task: DividedTask, rows: list[list[int]], present: list[list[float]], velocity: float) -> list[Tensor]:
    """Two devices' parameters before and after a step of these samples, and the velocities after it, [2, d] each."""
    model = FlatModel(task.model)
    parts = tuple(part.expand(2, *part.shape).contiguous() for part in model.split(global_model(task)))
    before, velocities = [part.clone() for part in parts], tuple(torch.full_like(part, velocity) for part in parts)
    samples = (task.train.inputs[torch.tensor(rows)], task.train.targets[torch.tensor(rows)])
    step = in_place(build_move(model, task.mean, task.std))
    step(parts, velocities, *samples, torch.tensor(present), torch.tensor(0.05), torch.tensor(0.9))
    return [torch.cat([part.flatten(1) for part in tensors], dim=1) for tensors in (before, parts, velocities)]


def test_padding_has_no_say(tasks: dict[str, DividedTask]) -> None:
    """Other samples in the padded places change nothing; a device without samples stays, whatever its momentum is."""
    present = [[1.0, 1, 0, 0], [1, 1, 1, 1]]
    one, other = (stepped(tasks["mlp"], [[1, 2, k, k + 1], [3, 4, 5, 6]], present, 0.0)[1] for k in (0, 50))
    assert torch.equal(one, other)
    before, after, velocities = stepped(tasks["mlp"], [[1, 2], [3, 4]], [[0.0, 0], [1, 0]], 1.0)
    assert torch.equal(after[0], before[0])
    assert bool((velocities[0] == 1).all())
    assert bool((after[1] != before[1]).any())


def test_channels_are_normalised_one_by_one() -> None:
    pictures = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).reshape(2, 3, 4, 4)
    means, deviations = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    normal = normalise(pictures, means, deviations)
    for one in (slice(0, 1), slice(1, 2), slice(2, 3)):
        torch.testing.assert_close(normal[:, one], normalise(pictures[:, one], means[one], deviations[one]))
