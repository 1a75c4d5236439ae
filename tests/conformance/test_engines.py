"""Every engine gives the updates of a plain loop, for every model, momentum, unequal data and smaller last chunks."""

import functools
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.config import Settings
from airfl.learning.batches import BatchRule, plan_batches
from airfl.learning.dense import library as dense
from airfl.learning.engines import choose
from airfl.learning.engines.compiled import (
    CompiledEngine,
    Shape,
    _compiled_training,
    _with_own_code,
    compiled_engine,
    compiler_found,
)
from airfl.learning.engines.engine import Work
from airfl.learning.engines.parallel import ParallelEngine
from airfl.learning.engines.table import ENGINES
from airfl.learning.flat import FlatModel
from airfl.learning.task import DividedTask, Samples
from airfl.learning.tasks.models import MODELS
from airfl.learning.tasks.partitions import Partition
from airfl.learning.trainer import LocalTrainer
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from tests.conftest import give_back

STREAMS = Streams(6)
SIZES = np.array([7, 3, 12, 4, 5])
HEAVY = ("vgg11", "resnet18", "cnn-svhn", "cnn-cifar10", "cnn-fashion", "lstm")
"""Models that take long: in single precision, a batch of one, two steps, two devices."""
USUAL = "layers" if dense.load_library() is None else "dense"
"""The engine of a perceptron without a measurement."""
LARGEST = ("vgg11", "resnet18")
"""Half a gigabyte for a second device."""


@pytest.fixture(autouse=True)
def two_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Two for engines with threads of their own; threads of torch's operations would only wait for one another."""
    case = getattr(request.node, "callspec", None)
    alone = request.function is test_clipped_gradients
    alone |= bool(case and case.params.get("engine") in ("vmap", "layers", "layers-serial"))
    with threads(1 if alone else 2):
        yield


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads of torch's during the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def task_of(name: str, dtype: torch.dtype) -> DividedTask:
    """Random samples of a model's shape on five unequal devices; characters stay numbers."""
    entry = MODELS[name]()
    generator = torch.Generator().manual_seed(1)
    count = int(SIZES.sum())
    inputs = torch.randn(count, *entry.input_shape, generator=generator, dtype=dtype)
    if name == "lstm":
        inputs = torch.randint(90, (count, *entry.input_shape), generator=generator)
    targets = torch.randint(entry.classes, (count,), generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = entry.build().to(dtype)
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    samples, nobody = Samples(inputs, targets), Samples(inputs[:0], targets[:0])
    order = np.random.default_rng(0).permutation(count)
    return DividedTask(samples, nobody, nobody, nobody, Partition(order, offsets), (), (), model)


def trainer_of(
    task: DividedTask, name: str, engine: str, chunk: int, momentum: float, *, rounds: int = 1, **length: float
) -> LocalTrainer:
    """Of five devices, 4 samples a batch but for the largest models."""
    run = {"devices": 5, "selected": 5, "chunk": chunk, "rounds": rounds}
    local = {"batch_size": 1 if name in HEAVY else 4, "learning_rate": 0.05, "momentum": momentum, "clip_norm": 1.0}
    local |= {**length, "engine": engine}
    settings = Settings.model_validate({"run": run, "task": {"model": name}, "local": local})
    return LocalTrainer(settings.local, settings.run, task, STREAMS, torch.device("cpu"))


def updates(trainer: LocalTrainer, task: DividedTask, count: int = 5) -> Tensor:
    """Of all devices, chunk by chunk, from a model that is not the initial one."""
    initial = FlatModel(task.model).initial()
    start = initial + 0.01 * torch.randn(len(initial), generator=torch.Generator().manual_seed(2), dtype=initial.dtype)
    chunks = [np.arange(first, min(first + trainer.chunk, count)) for first in range(0, count, trainer.chunk)]
    return torch.cat([trainer.updates(start, chunk, 3, Store()) for chunk in chunks])


def knows(engine: str, name: str) -> bool:
    """Whether an engine is for the model."""
    if engine == "dense":
        return MODELS[name].fully_connected and dense.load_library() is not None
    if engine.startswith(("compiled", "graphed")):
        return False
    return MODELS[name].batched if engine == "vmap" else MODELS[name].layered


@functools.cache
def by_the_loop(name: str, dtype: torch.dtype, momentum: float) -> Tensor:
    """The updates of two epochs by the loop, which engines share; to be read only."""
    task = task_of(name, dtype)
    with threads(1):
        return updates(trainer_of(task, name, "loop", 1, momentum, epochs=2), task)


CASES = [
    (engine, name, momentum)
    for name in MODELS
    for momentum in (0.0, 0.9)
    for engine in ENGINES
    if engine != "loop" and knows(engine, name) and name not in HEAVY
]


@pytest.mark.parametrize(("engine", "name", "momentum"), CASES)
def test_an_engine_gives_the_updates_of_the_loop(engine: str, name: str, momentum: float) -> None:
    """In float64, where only a different sum could differ; "dense" has only float32."""
    dtype, close = (torch.float32, 1e-5) if engine == "dense" else (torch.float64, 1e-10)
    task, wanted = task_of(name, dtype), by_the_loop(name, dtype, momentum)
    assert wanted.norm(dim=1).min() > 1e-4
    for chunk in (5, 3):
        trainer = trainer_of(task, name, engine, chunk, momentum, epochs=2)
        assert (trainer.engine, trainer.chunk) == (engine, chunk)
        found = updates(trainer, task)
        torch.testing.assert_close(found, wanted, rtol=0, atol=close * float(wanted.abs().max()))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("name", ["mlp", "cnn", pytest.param("lstm", marks=pytest.mark.full)])
def test_clipped_gradients(name: str, momentum: float) -> None:
    """The loop as by torch's own clipping, the other engines as the loop. C1 lies between the norms of the steps."""
    task = task_of(name, torch.float64)
    rule = BatchRule(0, 4, 1 if name in HEAVY else 4)
    plan = plan_batches(rule, STREAMS, 3, np.array([1]), SIZES[1:2], int(SIZES.max()))
    work = Work(task, np.array([1]), plan, 0.05)
    norms, limit = [], 0.0
    for wanted_norms in (True, False):
        model = FlatModel(task.model)
        initial = model.initial()
        noise = torch.randn(len(initial), generator=torch.Generator().manual_seed(2), dtype=initial.dtype)
        leaves = [part.clone().requires_grad_() for part in model.split(initial + 0.01 * noise)]
        optimiser = torch.optim.SGD(leaves, lr=0.05, momentum=momentum)
        for rows, present in zip(work.rows[0], torch.from_numpy(work.present[0]), strict=True):
            own = rows[present]
            optimiser.zero_grad()
            torch.autograd.backward(model.losses(tuple(leaves), work.inputs(own), work.targets(own)).mean())
            norm = torch.nn.utils.clip_grad_norm_(leaves, math.inf if wanted_norms else limit)
            norms += [float(norm)] if wanted_norms else []
            optimiser.step()
        limit = float(np.median(norms))
    assert min(norms) < limit < max(norms)
    moved = torch.cat([leaf.detach().flatten() for leaf in leaves]) - (initial + 0.01 * noise)
    clip = {"steps": 4, "gradient_clip_norm": limit}
    wanted = updates(trainer_of(task, name, "loop", 1, momentum, **clip), task)
    # Torch divides by the norm plus 1e-6.
    torch.testing.assert_close(wanted[1], moved, rtol=0, atol=1e-5 * float(moved.abs().max()))
    if not momentum:
        assert wanted.norm(dim=1).max() <= 4 * 0.05 * limit * (1 + 1e-9)  # lemma 2
    for engine in ("layers", *(["vmap"] if MODELS[name].batched else [])):
        found = updates(trainer_of(task, name, engine, 5, momentum, **clip), task)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10 * float(wanted.abs().max()))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(pytest.param(name, 2, marks=pytest.mark.full) for name in LARGEST),
        *((name, 2) for name in HEAVY if name not in LARGEST),
        ("cnn", 5),
    ],
)
def test_in_single_precision_too(name: str, count: int) -> None:
    """The kernels of a run: rounding, and now and then a unit whose input rounds to the other side of 0."""
    task, steps = task_of(name, torch.float32), 2
    with threads(1):
        wanted = updates(trainer_of(task, name, "loop", 1, 0.9, steps=steps), task, count)
    for engine in ("layers", "layers-parallel"):
        give_back()  # half a gigabyte of the largest models
        with threads(2 if engine == "layers-parallel" else 1):
            found = updates(trainer_of(task, name, engine, count, 0.9, steps=steps), task, count)
        assert (found - wanted).norm(dim=1).max() < 1e-3 * wanted.norm(dim=1).min()


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """Neither before the test nor after it."""
    _compiled_training.cache_clear()
    yield
    _compiled_training.cache_clear()


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    ("name", "engine", "backend"),
    [
        ("logistic", "compiled-serial", "aot_eager"),
        ("mlp", "compiled", "aot_eager"),
        pytest.param("logistic", "compiled-serial", "inductor", marks=pytest.mark.full),
        pytest.param("mlp", "compiled", "inductor", marks=pytest.mark.full),
    ],
)
def test_the_compiled_engine_too(name: str, engine: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By vmap and by layers. A chunk of 3 is compiled once, for the last, smaller one too; to C++ it takes 20 s."""
    if backend == "aot_eager":
        captured = functools.partial(torch.compile, dynamic=False, fullgraph=True, backend=backend)
        monkeypatch.setattr(torch, "compile", lambda function, **_: captured(function))
    elif not compiler_found(torch.device("cpu")):
        pytest.skip("no C++ compiler")
    task, wanted = task_of(name, torch.float32), by_the_loop(name, torch.float32, 0.9)
    trainer = trainer_of(task, name, engine, 3, 0.9, epochs=2)
    assert trainer.engine == engine
    compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    torch.testing.assert_close(updates(trainer, task), wanted, rtol=0, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled


def test_functions_of_one_definition_are_compiled_apart(caplog: pytest.LogCaptureFixture) -> None:
    """torch compiles a definition at most 8 times, and then warns and fails; each own model and shape is one more."""

    def scaled(factor: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def by(value: torch.Tensor) -> torch.Tensor:
            return factor * value

        return by

    with caplog.at_level(logging.WARNING, "torch._dynamo"):
        for factor in range(10):
            made = torch.compile(_with_own_code(scaled(factor)), dynamic=False, fullgraph=True, backend="eager")
            assert made(torch.ones(1 + factor)).tolist() == [factor] * (1 + factor)
    assert not caplog.records


@pytest.mark.usefixtures("nothing_compiled")
def test_work_of_another_shape_is_compiled_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a ninth number of devices in a process would be refused. Equal work shares what is compiled."""
    task = task_of("logistic", torch.float32)
    model = FlatModel(task.model)

    def compiled(function: object, **_: object) -> Callable[..., Tensor]:
        return lambda start, inputs, targets, rows, *others: torch.zeros(rows.shape[1], model.dimension)

    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr("airfl.learning.engines.compiled.compiler_found", lambda device: True)
    made = [compiled_engine(model, task, 0.9, Shape(devices, 2, 5), 1) for devices in (3, 3, 4)]
    one, again, other = (engine.training for engine in made if isinstance(engine, CompiledEngine))
    assert one is again
    assert one is not other


def test_without_a_compiler_the_engine_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airfl.learning.engines.compiled.compiler_found", lambda device: False)
    task = task_of("mlp", torch.float32)
    assert trainer_of(task, "mlp", "compiled", 5, 0.0, steps=1).engine == USUAL


def test_a_measurement_is_made_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run measures; the next takes what was found; what is forced is not chosen."""
    monkeypatch.setattr(choose, "WORK_WORTH_MEASURING", 0)
    monkeypatch.setattr(choose, "SECONDS_PER_CANDIDATE", 0.0)
    task = task_of("mlp", torch.float32)
    tried: list[tuple[str, int]] = []
    candidates = choose.candidates

    def noted(*arguments: Any) -> Iterator[tuple[str, int]]:
        for candidate in candidates(*arguments):
            tried.append(candidate)
            yield candidate

    monkeypatch.setattr(choose, "candidates", noted)
    first = trainer_of(task, "mlp", "auto", 0, 0.0, steps=1)
    assert (first.engine, first.chunk) in tried
    assert {"dense", "layers", "layers-serial", "layers-parallel", "loop"} == {name for name, _ in tried}
    tried.clear()
    again = trainer_of(task, "mlp", "auto", 0, 0.0, steps=1)
    assert (again.engine, again.chunk, tried) == (first.engine, first.chunk, [])
    trainer_of(task, "mlp", "auto", 0, 0.0, rounds=1000, steps=1)
    assert tried  # a run of another length may take another engine
    tried.clear()
    forced = trainer_of(task, "mlp", "layers", 2, 0.0, steps=1)
    assert (forced.engine, forced.chunk, tried) == ("layers", 2, [])
    trainer_of(task, "mlp", "auto", 3, 0.0, steps=1)
    assert {chunk for _, chunk in tried} == {3}
    (choose.cache.cache_folder() / choose.cache.FILE_NAME).write_text("no json")
    assert trainer_of(task, "mlp", "auto", 0, 0.0, steps=1).engine in ENGINES


@pytest.mark.parametrize(("seconds", "measured"), [(1e-4, 400), (1e-2, 50), (1.0, choose.LEAST_STEPS)])
def test_of_many_long_steps_the_first_are_measured(
    seconds: float, measured: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that only training moves on. What is compared is the time of all steps."""
    clock, trained = [0.0], list[int]()

    class Slow:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
            trained.append(work.plan.shape[1])
            clock[0] += self.factor * seconds * work.plan.shape[1] * len(work.devices)

    monkeypatch.setattr(choose, "WORK_WORTH_MEASURING", 0)
    monkeypatch.setattr(choose.time, "perf_counter", lambda: clock[0])
    pace = {"layers": 1.0, "loop": 1.5}
    monkeypatch.setattr(choose, "ENGINES", {
        name: lambda spec, name=name: Slow(pace[name]) if name in pace else None for name in ENGINES
    })  # fmt: skip
    monkeypatch.setattr(choose.cache, "read", lambda *_: None)
    monkeypatch.setattr(choose.cache, "write", lambda *_: None)
    trainer = trainer_of(task_of("mlp", torch.float32), "mlp", "auto", 0, 0.0, steps=400)
    assert trainer.engine == "layers"
    assert {*trained[2:]} == {measured}  # after two calls that tell how long a step takes


def test_an_engine_for_which_memory_is_too_small_ends_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fits:
        def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
            pass

    class Full:
        def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(choose, "WORK_WORTH_MEASURING", 0)
    monkeypatch.setattr(choose, "SECONDS_PER_CANDIDATE", 0.0)
    monkeypatch.setattr(choose, "ENGINES", {
        name: lambda spec, name=name: {"layers": Full, "loop": Fits}.get(name, lambda: None)() for name in ENGINES
    })  # fmt: skip
    monkeypatch.setattr(choose.cache, "read", lambda *_: None)
    monkeypatch.setattr(choose.cache, "write", lambda *_: None)
    assert trainer_of(task_of("mlp", torch.float32), "mlp", "auto", 0, 0.0, steps=40).engine == "loop"


def test_devices_side_by_side_take_one_thread_each() -> None:
    """Threads of torch's within those of the run would fight for the cores."""
    seen: list[int] = []

    class Noted:
        def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
            torch.ones(1 << 18).add(1)  # an operation that takes all threads it may
            seen.append(torch.get_num_threads())

    task = task_of("mlp", torch.float32)
    work = Work(task, np.arange(2), np.zeros((2, 1, 1), dtype=np.int64), 0.1)
    ParallelEngine(Noted(), 2).train(torch.zeros(1), work, torch.zeros(2, 1))
    assert (seen, torch.get_num_threads()) == ([1, 1], 2)


def test_what_is_worth_compiling_is_compiled_for_all_devices_of_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """And taken where it is faster by enough, on all threads or on one."""
    monkeypatch.setattr(choose, "WORK_WORTH_MEASURING", 0)
    monkeypatch.setattr(choose, "SECONDS_WORTH_COMPILING", 0.0)
    pace = {"dense": 3.0, "layers": 1.0, "compiled": 0.5, "compiled-serial": 0.4}
    asked: list[tuple[str, int]] = []

    def named(name: str) -> Any:
        def build(bench: Any) -> str:
            asked.append((name, bench.chunk))
            return name

        return build

    monkeypatch.setattr(choose, "ENGINES", {name: named(name) for name in ENGINES})
    monkeypatch.setattr(choose, "_seconds", lambda engine, *_: pace.get(engine, 2.0))
    monkeypatch.setattr(choose.cache, "read", lambda *_: None)
    monkeypatch.setattr(choose.cache, "write", lambda *_: None)
    task = task_of("mlp", torch.float32)
    assert trainer_of(task, "mlp", "auto", 0, 0.0, steps=1).engine == "compiled-serial"
    assert {chunk for name, chunk in asked if name.startswith("compiled")} == {5}
    asked.clear()
    monkeypatch.setattr(choose, "CHUNK_MEMORY_BYTES", 1)
    trainer_of(task, "mlp", "auto", 0, 0.0, steps=1)
    assert {chunk for name, chunk in asked if name.startswith("compiled")} == {1}  # or as many as memory holds
    pace["compiled-serial"] = 0.6
    assert trainer_of(task, "mlp", "auto", 0, 0.0, steps=1).engine == "compiled"
    pace["compiled"] = pace["compiled-serial"] = 0.9
    assert trainer_of(task, "mlp", "auto", 0, 0.0, steps=1).engine == "layers"
    asked.clear()
    pace["dense"] = 0.95  # compiled already
    assert trainer_of(task, "mlp", "auto", 0, 0.0, steps=1).engine == "dense"
    assert not any(name.startswith("compiled") for name, _ in asked)
