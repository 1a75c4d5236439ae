"""Fully connected networks by compiled C: the numbers of autograd, for every activation and width."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from airfl.learning.dense import DenseSamples, dense_network_of, library
from airfl.learning.engines.dense import dense_engine
from airfl.learning.engines.engine import Work
from airfl.learning.engines.loop import LoopEngine
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.flat import FlatModel
from airfl.learning.per_sample import Rows, SampleGradients
from airfl.learning.task import DividedTask, Samples
from airfl.learning.tasks.partitions import Partition
from airfl.runtime.precision import precision

pytestmark = pytest.mark.skipif(library.load_library() is None, reason="no C compiler")

# Relative to the largest: sums of some hundred float32 products, whatever their order.
CLOSE = 1e-5
MODELS = {
    "one layer": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 5)),
    "no bias": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(12, 7, bias=False), nn.ReLU(), nn.Linear(7, 5, bias=False)
    ),
    "relu": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)),
    "sigmoid": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 33), nn.Sigmoid(), nn.Linear(33, 5)),
    "three layers": lambda: nn.Sequential(
        *(nn.Flatten(), nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, 21), nn.ReLU(), nn.Linear(21, 5))
    ),
    "transposed, padded": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 30), nn.Sigmoid(), nn.Linear(30, 37)),
    "transposed, three layers": lambda: nn.Sequential(
        *(nn.Flatten(), nn.Linear(12, 15, bias=False), nn.Tanh(), nn.Linear(15, 7), nn.ReLU(), nn.Linear(7, 18))
    ),
    "linear twice": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Identity(), nn.Linear(6, 5)),
}


def task_of(model: nn.Module, inputs: Tensor | None = None, mean: tuple[float, ...] = ()) -> DividedTask:
    """40 samples of 3 x 2 x 2 numbers in five classes, on three devices of unequal size."""
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(40, 3, 2, 2, generator=generator) if inputs is None else inputs
    samples = Samples(inputs, torch.randint(5, (40,), generator=generator))
    few = Samples(samples.inputs[:2], samples.targets[:2])
    partition = Partition(np.random.default_rng(0).permutation(40), np.array([0, 17, 29, 40]))
    return DividedTask(samples, few, few, few, partition, mean, tuple(0.2 + share for share in mean), model)


def model_of(name: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return MODELS[name]()


def assert_close(found: Tensor, wanted: Tensor) -> None:
    assert float(wanted.abs().max()) > 1e-3
    torch.testing.assert_close(found, wanted, rtol=0, atol=CLOSE * float(wanted.abs().max()))


def work_of(task: DividedTask, batch: int) -> Work:
    """Three steps; the second device makes two, whose last batch has one sample."""
    plan = np.random.default_rng(1).integers(11, size=(3, 3, batch))
    plan[1, 2], plan[1, 1, 1:] = -1, -1
    return Work(task, np.arange(3), plan, 0.3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("batch", "momentum"), [(1, 0.0), (4, 0.9), (13, 0.5)])
def test_local_sgd_is_that_of_autograd(name: str, batch: int, momentum: float) -> None:
    task = task_of(model_of(name))
    model, work = FlatModel(task.model), work_of(task, batch)
    engine = dense_engine(EngineSpec(model, task, momentum, 3, 3, batch))
    assert engine is not None
    found, wanted = torch.empty(2, 3, model.dimension)
    engine.train(model.initial(), work, found)
    LoopEngine(model, momentum).train(model.initial(), work, wanted)
    assert_close(found, wanted)
    columns = torch.empty(model.dimension, 3).T  # not contiguous
    engine.train(model.initial(), work, columns)
    assert torch.equal(columns, found)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_device_does_not_depend_on_those_beside_it(threads: int) -> None:
    task = task_of(model_of("three layers"))
    model, work = FlatModel(task.model), work_of(task, 6)
    together, alone = torch.empty(3, model.dimension), torch.empty(1, model.dimension)
    usual = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        engine = dense_engine(EngineSpec(model, task, 0.9, 3, 3, 6))
    finally:
        torch.set_num_threads(usual)
    assert engine is not None
    engine.train(model.initial(), work, together)
    for device in range(3):
        engine.train(model.initial(), Work(task, work.devices[[device]], work.plan[[device]], 0.3), alone)
        assert torch.equal(alone[0], together[device])


@pytest.mark.parametrize("mean", [(0.3,), (0.1, 0.4, 0.7)])
def test_pixels_are_normalised_as_elsewhere(mean: tuple[float, ...]) -> None:
    pixels = torch.randint(256, (40, 3, 2, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))
    task = task_of(model_of("relu"), pixels, mean)
    model, work = FlatModel(task.model), work_of(task, 4)
    engine = dense_engine(EngineSpec(model, task, 0.9, 3, 3, 4))
    assert engine is not None
    found, wanted = torch.empty(2, 3, model.dimension)
    engine.train(model.initial(), work, found)
    LoopEngine(model, 0.9).train(model.initial(), work, wanted)
    assert_close(found, wanted)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip", [{}, {"bound": 0.7}, {"bound": 1e-9}, {"clamp": 0.05}], ids=str)
def test_sums_of_gradients_are_those_of_autograd(name: str, clip: dict[str, float]) -> None:
    """Against one sample after another, in float64."""
    task = task_of(model_of(name))
    model, doubled = FlatModel(task.model), FlatModel(model_of(name).double())
    gradients = SampleGradients.of(model, task)
    assert gradients.engine == "dense"
    rows, present = torch.arange(14).view(2, 7), torch.ones(2, 7)
    present[1, 4:] = 0
    points = model.initial() + 0.1 * torch.randn(2, model.dimension, generator=torch.Generator().manual_seed(2))
    inputs, targets = task.train.inputs[rows], task.train.targets[rows]
    found = gradients.sums(points, inputs, targets, present, **clip)
    wanted = SampleGradients(doubled, task, "loop", None, 1).sums(
        points.double(), inputs.double(), targets, present.double(), **clip
    )
    scale = 1e9 if clip.get("bound") == 1e-9 else 1
    assert_close(scale * found, (scale * wanted).float())


@pytest.mark.parametrize("bound", [math.inf, 0.7])
def test_gradients_of_each_sample_and_means_are_those_of_the_layers(bound: float) -> None:
    task = task_of(model_of("three layers"))
    model = FlatModel(task.model)
    dense, layers = (SampleGradients.of(model, task, engine) for engine in ("auto", "layers"))
    assert (dense.engine, layers.engine) == ("dense", "layers")
    start, rows = model.initial(), torch.arange(23)
    assert_close(dense.each(start, rows, bound), layers.each(start, rows, bound))
    whole = Rows.whole(task, np.arange(3))
    assert_close(dense.means(start, whole, bound), layers.means(start, whole, bound))


@pytest.mark.parametrize("model", [nn.ReLU(), nn.Sigmoid(), nn.Tanh()])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_stays_so(model: nn.Module, value: float) -> None:
    """So that a run that has diverged is stopped."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), model, nn.Linear(8, 5))
    task = task_of(network)
    flat = FlatModel(network)
    start = flat.initial()
    start[-1] = value
    gradients = SampleGradients.of(flat, task)
    assert gradients.engine == "dense"
    found = gradients.sums(start[None], task.train.inputs[None, :4], task.train.targets[None, :4], torch.ones(1, 4))
    assert not found.isfinite().all()


def test_large_logits_do_not_overflow() -> None:
    task = task_of(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)))
    model = FlatModel(task.model)
    start = 1e4 * model.initial()
    dense, layers = (SampleGradients.of(model, task, engine) for engine in ("auto", "layers"))
    given = (start[None], task.train.inputs[None], task.train.targets[None], torch.ones(1, 40))
    assert_close(dense.sums(*given), layers.sums(*given))


OTHERS = {
    "a convolution": nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten(), nn.Linear(8, 5)),
    "an activation at the end": nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU()),
    "an activation at the start": nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(12, 5)),
    "positions": nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 5)),
    "layers that do not fit": nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.Linear(7, 5)),
    "other inputs": nn.Sequential(nn.Linear(2, 5)),
    "two activations": nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Tanh(), nn.Linear(5, 5)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_have_no_such_network(name: str) -> None:
    task = task_of(OTHERS[name])
    assert dense_network_of(FlatModel(task.model), task) is None


def test_other_losses_numbers_and_precisions_have_no_such_network() -> None:
    task = task_of(model_of("relu"))
    assert dense_network_of(FlatModel(task.model), task) is not None
    assert dense_network_of(FlatModel(task.model, lambda outputs, _: outputs.sum(dim=1)), task) is None
    assert dense_network_of(FlatModel(model_of("relu").double()), task) is None
    with precision("bf16"):
        assert dense_network_of(FlatModel(task.model), task) is None
    for dtype in (torch.float64, torch.uint8):
        assert dense_network_of(FlatModel(task.model), task_of(task.model, torch.zeros(40, 12, dtype=dtype))) is None


@pytest.mark.parametrize("target", [-1, 5, -100])
def test_a_target_that_is_no_class_is_not_written_beside_the_logits(target: int) -> None:
    task = task_of(model_of("relu"))
    model, start = FlatModel(task.model), FlatModel(task.model).initial()
    network, engine = dense_network_of(model, task), dense_engine(EngineSpec(model, task, 0.0, 3, 3, 4))
    assert network is not None
    assert engine is not None
    task.train.targets[:] = target
    assert dense_network_of(model, task) is None
    with pytest.raises(IndexError, match="not one of the classes"):
        engine.train(start, work_of(task, 4), torch.empty(3, model.dimension))
    given = (task.train.inputs[None, :4], task.train.targets[None, :4], torch.ones(1, 4))
    with pytest.raises(IndexError, match="not one of the classes"):
        network.sums(start[None], *given, torch.empty(1, model.dimension), threads=1)


def test_this_thread_does_something_else_once_while_others_train() -> None:
    """Not where no other thread trains; what it raises is raised, after the others have ended."""
    task = task_of(model_of("relu"))
    model, work = FlatModel(task.model), work_of(task, 6)
    network = dense_network_of(model, task)
    assert network is not None
    samples = DenseSamples.of(task.train, (), ())
    calls: list[int] = []

    def train(threads: int, meanwhile: Callable[[], object]) -> Tensor:
        found = torch.full((3, model.dimension), math.nan)
        rows = np.tile(np.where(work.present, work.rows.numpy(), -1), (1, 1000, 1))
        try:
            network.train(model.initial(), samples, rows, 1e-3, 0.9, found, threads=threads, meanwhile=meanwhile)
        except KeyboardInterrupt:
            calls.append(0)
        return found

    def interrupted() -> None:
        raise KeyboardInterrupt

    alone = train(1, lambda: calls.append(1))
    beside = [train(threads, lambda threads=threads: calls.append(threads)) for threads in (2, 3, 8)]
    after = train(2, interrupted)
    assert calls == [2, 3, 8, 0]
    assert alone.isfinite().all()
    assert all(torch.equal(found, alone) for found in (*beside, after))


@pytest.mark.parametrize("name", ["one layer", "relu", "transposed, padded", "three layers"])
def test_a_device_that_diverges_spoils_no_other(name: str) -> None:
    """The padding of its rows is not finite, either, and another device's rows come to stand there."""
    model = FlatModel(model_of(name))
    task = task_of(model.module)
    work = work_of(task, 6)
    task.train.inputs[task.partition.indices[slice(*task.partition.offsets[1:3])]] = math.inf
    together, alone = torch.empty(3, model.dimension), torch.empty(2, model.dimension)
    engine = dense_engine(EngineSpec(model, task, 0.9, 3, 3, 6))
    assert engine is not None
    engine.train(model.initial(), work, together)
    others = [0, 2]
    engine.train(model.initial(), Work(task, work.devices[others], work.plan[others], 0.3), alone)
    assert not together[1].isfinite().all()
    assert alone.isfinite().all()
    assert torch.equal(together[others], alone)
