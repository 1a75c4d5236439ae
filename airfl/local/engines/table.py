"""The table of engines. A new one is one file beside this one and one line here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch

from airfl.local.engines.compiled import Shape, compiled_engine
from airfl.local.engines.engine import Engine
from airfl.local.engines.layers import LayersEngine
from airfl.local.engines.loop import LoopEngine
from airfl.local.engines.parallel import ParallelEngine
from airfl.local.engines.vmap import VmapEngine
from airfl.local.flat import FlatModel
from airfl.local.layers import as_layers
from airfl.local.sgd import build_move, in_place
from airfl.tasks.task import DividedTask


@dataclass(frozen=True)
class Bench:
    """What engines are built for.

    Attributes:
        model: What is trained.
        task: Its data.
        momentum: Of local SGD, 0 for none.
        chunk: Devices in a chunk.
        steps: Most steps of a device in a round.
        batch: Samples in a batch.
    """

    model: FlatModel
    task: DividedTask
    momentum: float
    chunk: int
    steps: int
    batch: int

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self.task.train.targets.device


def loop(bench: Bench) -> Engine:
    """For any model."""
    return LoopEngine(bench.model, bench.momentum)


def layers(bench: Bench) -> Engine | None:
    """For models whose layers are in the table of layers, under cross-entropy."""
    found = as_layers(bench.model.module, bench.model.loss)
    return None if isinstance(found, str) else LayersEngine(bench.model, found, bench.momentum)


def vmap(bench: Bench) -> Engine | None:
    """For models that torch knows how to compute in batches of devices."""
    move = build_move(bench.model, bench.task.mean, bench.task.std)
    return VmapEngine(bench.model, bench.task, bench.momentum, in_place(move))


def compiled(bench: Bench, threads: int = 0) -> Engine | None:
    """For the models of both where a compiler is found, on so many threads of a CPU, 0 for all that the run has."""
    shape = Shape(bench.chunk, bench.steps, bench.batch)
    return compiled_engine(bench.model, bench.task, bench.momentum, shape, threads or torch.get_num_threads())


def layers_side_by_side(bench: Bench, threads: int = 0) -> Engine | None:
    """`layers` for devices side by side on so many threads of a CPU, each with its operations alone."""
    inner = layers(bench)
    if inner is None or bench.device.type != "cpu":
        return inner
    return ParallelEngine(inner, threads or torch.get_num_threads())


ENGINES: dict[str, Callable[[Bench], Engine | None]] = {
    "loop": loop,
    "vmap": vmap,
    "compiled": compiled,
    "compiled-serial": functools.partial(compiled, threads=1),
    "layers": layers,
    "layers-serial": functools.partial(layers_side_by_side, threads=1),
    "layers-parallel": layers_side_by_side,
}
"""By the names of `local.engine`; None for a model, or a machine, that an engine is not for."""

THREADS_OF_THEIR_OWN = {"compiled", "compiled-serial", "layers-serial", "layers-parallel"}
"""Engines that on a CPU take none of the threads that torch's operations share."""
