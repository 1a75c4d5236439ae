"""The engine whose steps are one CUDA graph, with a recording of operations in the place of the graph."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import airfl
from airfl.errors import UserError
from airfl.learning.engines.engine import Work
from airfl.learning.engines.graphed import WARM_UPS, GraphedEngine, graphed_engine, record_graph
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.engines.steps import fastest_move
from airfl.learning.engines.vmap import VmapEngine
from airfl.learning.flat import FlatModel
from airfl.learning.sgd import in_place
from airfl.learning.task import DividedTask
from airfl.runtime import beside
from airfl.runtime.beside import recording_stream, side_stream
from experiments.gpu.engines import SIZES, work_of
from experiments.gpu.imitation import CUDA, imitated_gpu
from experiments.gpu.recording import Repetition, record_operations
from experiments.gpu.repeated import trace_differences
from experiments.gpu.worlds import short_settings, unequal_task

CHUNK, STEPS, BATCH = 3, 4, 4
"""Of the devices (7, 3, 12, 4, 5 samples), some have fewer samples than a batch."""


def engines_of(name: str, limit: float = math.inf) -> tuple[DividedTask, GraphedEngine, VmapEngine]:
    """A task, the engine with recorded steps, and the same steps without a recording."""
    task = unequal_task(name, SIZES)
    model = FlatModel(task.model)
    step = in_place(fastest_move(model, task.mean, task.std, limit))
    graphed = GraphedEngine(EngineSpec(model, task, 0.9, CHUNK, STEPS, BATCH, limit), record_operations)
    return task, graphed, VmapEngine(model, task, 0.9, step, CHUNK)


def updates(engine: GraphedEngine | VmapEngine, start: Tensor, work: Work) -> Tensor:
    found = start.new_full((len(work.devices), len(start)), torch.nan)
    engine.train(start, work, found)
    return found


@pytest.mark.parametrize(
    "name", ["mlp", "cnn", *(pytest.param(name, marks=pytest.mark.full) for name in ("cnn-cifar10", "lstm"))]
)
def test_replayed_steps_are_those_of_the_engine_without_a_graph_bit_for_bit(name: str) -> None:
    """For chunks one after the other with other parameters, devices, batches, learning rates and numbers of steps."""
    task, graphed, plain = engines_of(name)
    start = FlatModel(task.model).initial()
    for devices, steps, rate in (([0, 1, 2], STEPS, 0.05), ([4, 3], STEPS, 0.01), ([2, 0, 1], 2, 0.1)):
        given = work_of(task, steps)
        plan = given.plan[: len(devices)]
        own = np.where(plan >= task.partition.sizes[devices][:, None, None], -1, plan)
        work = Work(task, np.array(devices), own, rate)
        wanted = updates(plain, start, work)
        assert torch.equal(updates(graphed, start, work), wanted)
        assert wanted.norm(dim=1).min() > 0
        start = start + wanted.mean(dim=0)


def test_gradients_of_recorded_steps_are_clipped() -> None:
    task, graphed, plain = engines_of("mlp", limit=1e-3)
    start, work = FlatModel(task.model).initial(), work_of(task, STEPS)
    found = updates(graphed, start, work)
    assert torch.equal(found, updates(plain, start, work))
    assert 0 < float(found.norm(dim=1).max()) < 0.05 * 1e-3 * 10 * STEPS


def test_steps_are_recorded_once_and_the_code_of_the_model_does_not_run_again() -> None:
    task = unequal_task("mlp", SIZES)
    model, calls = FlatModel(task.model), []

    def record(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
        calls.append("recorded")
        replay = record_operations(work, device)
        assert isinstance(replay, Repetition)
        assert replay.operations > STEPS
        return lambda: (calls.append("replayed"), replay())[1]

    engine = GraphedEngine(EngineSpec(model, task, 0.0, CHUNK, STEPS, BATCH), record)
    for _ in range(2):
        with mock.patch.object(FlatModel, "outputs", side_effect=AssertionError):
            updates(engine, model.initial(), work_of(task, STEPS))
    assert calls == ["recorded", "replayed", "replayed"]


def test_a_run_on_the_imitated_gpu_has_the_trace_of_the_cpu_and_waits_for_no_step() -> None:
    settings = short_settings("pfels", "run.rounds=2", "run.chunk=3")
    here = airfl.run(settings)
    with imitated_gpu() as waits:
        there = airfl.run(short_settings("pfels", "run.rounds=2", "run.chunk=3", "local.engine=graphed"), device="cuda")
        assert not waits.within("train")
        assert trace_differences(there.path, here.path)  # so that the traces below are of two engines
    with there.trace() as found, here.trace() as wanted:
        np.testing.assert_allclose(found["test_loss"], wanted["test_loss"], rtol=1e-4)
        np.testing.assert_allclose(found["update_norm"], wanted["update_norm"], rtol=1e-4)


def test_without_a_gpu_it_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match=r"^local.engine: 'graphed' .* the run is on 'cpu'; give --device cuda"):
        airfl.run(short_settings("fedavg", "local.engine=graphed"))


class Reading(nn.Module):
    """A model whose forward reads a number of a tensor, for which the CPU has to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        largest = float(torch.ones(3, device=inputs.device).max())
        outputs: Tensor = self.layer(inputs.flatten(1)) * largest
        return outputs


def test_a_model_that_cannot_be_recorded_is_refused_in_one_line() -> None:
    task = unequal_task("mlp", SIZES)
    object.__setattr__(task, "model", Reading())
    with imitated_gpu():
        there = task.to(CUDA)
        spec = EngineSpec(FlatModel(there.model), there, 0.0, CHUNK, STEPS, BATCH)
        with pytest.raises(UserError, match=r"^local.engine: 'graphed' cannot record .* of Reading .*; use 'auto'$"):
            graphed_engine(spec)


def test_a_graph_is_recorded_after_warming_up_on_a_side_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order that torch asks for; the graph is not replayed by recording it."""
    happened: list[str] = []

    class Stream:
        def __init__(self, name: object) -> None:
            self.name = str(name)

        def wait_stream(self, other: Stream) -> None:
            happened.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def within(what: str) -> Iterator[None]:
        happened.append(f"begin {what}")
        yield
        happened.append(f"end {what}")

    graph = mock.Mock(replay=lambda: happened.append("replayed"))
    monkeypatch.setattr("airfl.learning.engines.graphed.side_stream", lambda _: Stream("side"))
    monkeypatch.setattr("airfl.learning.engines.graphed.recording_stream", lambda _: Stream("the recording"))
    with mock.patch.multiple(
        torch.cuda,
        device=lambda _: within("device"),
        current_stream=lambda _: Stream("usual"),
        stream=lambda stream: within(stream.name),
        CUDAGraph=lambda: graph,
        graph=lambda given, stream: within(f"graph on {stream.name}") if given is graph else None,
    ):
        replay = record_graph(lambda: happened.append("work"), CUDA)
    recorded = ["begin graph on the recording", "work", "end graph on the recording"]
    warm = ["side waits for usual", "begin side", *["work"] * WARM_UPS, "end side", "usual waits for side"]
    assert happened == ["begin device", *warm, *recorded, "end device"]
    replay()
    assert happened[-1] == "replayed"


def test_graphs_are_recorded_on_a_stream_of_their_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's own choice is a stream of the GPU on which a process recorded first."""
    made: list[int] = []
    monkeypatch.setattr(beside, "_stream_of", functools.cache(lambda number, _: made.append(number) or mock.Mock()))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    streams = [recording_stream(torch.device(name)) for name in ("cuda:0", "cuda:1", "cuda:0", "cuda")]
    assert made == [0, 1, 2]
    assert streams[0] is streams[2] is not streams[1]
    assert streams[0] is not side_stream(torch.device("cuda:0"))
