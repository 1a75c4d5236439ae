"""The table of engines. To add an engine, add a file beside this one and a line here."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch

from airfl.learning.engines.compiled import Shape, compiled_engine
from airfl.learning.engines.dense import dense_engine
from airfl.learning.engines.engine import Engine
from airfl.learning.engines.graphed import graphed_engine
from airfl.learning.engines.layers import LayersEngine
from airfl.learning.engines.loop import LoopEngine
from airfl.learning.engines.parallel import ParallelEngine
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.engines.vmap import VmapEngine
from airfl.learning.layers import as_layers
from airfl.learning.sgd import build_move, in_place


def loop(spec: EngineSpec) -> Engine:
    """Return the engine that trains one device after another, for any model."""
    return LoopEngine(spec.model, spec.momentum, spec.gradient_clip_norm)


def layers(spec: EngineSpec) -> Engine | None:
    """Return the engine of hand-batched layers, for models made of known layers under cross-entropy; else None."""
    layered = as_layers(spec.model.module, spec.model.loss)
    return (
        None if isinstance(layered, str) else LayersEngine(spec.model, layered, spec.momentum, spec.gradient_clip_norm)
    )


def vmap(spec: EngineSpec) -> Engine | None:
    """Return the engine of vmapped autograd, for models that torch.func.vmap supports."""
    move = build_move(spec.model, spec.task.mean, spec.task.std, spec.gradient_clip_norm)
    return VmapEngine(spec.model, spec.task, spec.momentum, in_place(move))


def compiled(spec: EngineSpec, threads: int = 0) -> Engine | None:
    """Return the compiled engine, for models of either kind; None if there is no compiler or if gradients are clipped.

    threads: number of threads on a CPU, 0 for all that the run has.
    """
    if math.isfinite(spec.gradient_clip_norm):
        return None
    shape = Shape(spec.chunk, spec.steps, spec.batch)
    return compiled_engine(spec.model, spec.task, spec.momentum, shape, threads or torch.get_num_threads())


def layers_in_threads(spec: EngineSpec, threads: int = 0) -> Engine | None:
    """Return `layers` with the devices split among threads of a CPU, each with single-threaded operations."""
    inner = layers(spec)
    if inner is None or spec.device.type != "cpu":
        return inner
    return ParallelEngine(inner, threads or torch.get_num_threads())


ENGINES: dict[str, Callable[[EngineSpec], Engine | None]] = {
    "loop": loop,
    "vmap": vmap,
    "compiled": compiled,
    "compiled-serial": functools.partial(compiled, threads=1),
    "graphed": graphed_engine,
    "layers": layers,
    "layers-serial": functools.partial(layers_in_threads, threads=1),
    "layers-parallel": layers_in_threads,
    "dense": dense_engine,
}
"""Factories by the name in `local.engine`; they return None if the engine does not support the model or machine. `auto`
never takes "graphed", which refuses instead."""

THREADS_OF_THEIR_OWN = {"compiled", "compiled-serial", "layers-serial", "layers-parallel", "dense"}
"""Engines that on a CPU do not use the thread pool of torch's operations."""
