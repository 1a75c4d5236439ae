"""The table of engines. A new one is one file beside this one and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from airfl.local.engines.engine import Engine
from airfl.local.engines.layers import LayersEngine
from airfl.local.engines.loop import LoopEngine
from airfl.local.engines.parallel import ParallelEngine
from airfl.local.engines.vmap import VmapEngine, compiled_engine
from airfl.local.flat import FlatModel
from airfl.local.layers import LayeredModel
from airfl.local.sgd import build_step
from airfl.tasks.task import Task


@dataclass(frozen=True)
class Bench:
    """What engines are built for: a model, its data, momentum, devices in a chunk, samples in a batch."""

    model: FlatModel
    task: Task
    momentum: float
    chunk: int
    batch: int

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self.task.train.targets.device


def loop(bench: Bench) -> Engine:
    """For any model."""
    return LoopEngine(bench.model, bench.momentum)


def layers(bench: Bench) -> Engine | None:
    """For models whose layers are in the table of layers."""
    layered = LayeredModel.of(bench.task.model)
    return None if layered is None else LayersEngine(bench.model, layered, bench.momentum)


def vmap(bench: Bench) -> Engine | None:
    """For models that torch knows how to compute in batches of devices."""
    step = build_step(bench.model, bench.task.mean, bench.task.std)
    return VmapEngine(bench.model, bench.task, bench.momentum, step)


def compiled(bench: Bench) -> Engine | None:
    """The same where a compiler is found; with CUDA graphs on a GPU."""
    return compiled_engine(bench.model, bench.task, bench.momentum, bench.chunk, bench.batch)


def on_threads(build: Callable[[Bench], Engine | None], threads: int = 0) -> Callable[[Bench], Engine | None]:
    """Devices side by side on so many threads of a CPU, 0 for all that the run has, each with its operations alone."""

    def built(bench: Bench) -> Engine | None:
        usual = torch.get_num_threads()
        torch.set_num_threads(1)  # which compiled code is for
        try:
            inner = build(bench)
        finally:
            torch.set_num_threads(usual)
        if inner is None or bench.device.type != "cpu":
            return inner
        return ParallelEngine(inner, threads or usual)

    return built


ENGINES: dict[str, Callable[[Bench], Engine | None]] = {
    "loop": loop,
    "vmap": vmap,
    "compiled": compiled,
    "compiled-serial": on_threads(compiled, 1),
    "layers": layers,
    "layers-serial": on_threads(layers, 1),
    "layers-parallel": on_threads(layers),
}
"""By the names of `local.engine`; None for a model, or a machine, that an engine is not for."""
