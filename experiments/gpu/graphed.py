"""The engine whose local steps are one CUDA graph against the same steps without a graph."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from airfl.learning.engines import graphed as engine
from airfl.learning.engines.engine import Engine, Work
from airfl.learning.engines.graphed import GraphedEngine
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.engines.steps import fastest_move
from airfl.learning.engines.vmap import VmapEngine
from airfl.learning.flat import FlatModel
from airfl.learning.sgd import build_move, in_place
from airfl.runtime.precision import precision
from experiments.gpu.engines import BATCH, MOMENTUM, RATE, SIZES, STEPS, products, tolerance, work_of
from experiments.gpu.recording import record_operations
from experiments.gpu.rows import Given, Row, equal, figure, guarded, within
from experiments.gpu.worlds import relative_error, steady, timed, unequal_task

NAMES = ("mlp", "cnn", "lstm", "resnet18")
DEVICES = 3
CHUNKS = ((DEVICES, RATE), (DEVICES - 1, RATE / 2))
"""Devices and learning rates of two chunks, one after the other: what a graph reads must not stay as recorded."""


def graphed(given: Given) -> Iterator[Row]:
    """Yield the differences of updates, for two chunks one after the other, and the times of a chunk."""
    with precision("float32"):  # torch's convolutions on a GPU round to tf32 otherwise
        for name in given.pick(NAMES, NAMES[:3]):
            yield from guarded(name, functools.partial(_of_model, given, name))


def _of_model(given: Given, name: str) -> Iterator[Row]:
    task = unequal_task(name, SIZES).to(given.device)
    model = FlatModel(task.model)
    spec = EngineSpec(model, task, MOMENTUM, DEVICES, STEPS, BATCH)
    # On the imitated GPU the engine's own function stands for the recording.
    replayed = GraphedEngine(spec, engine.record_graph if given.device.type == "cuda" else record_operations)
    same = in_place(fastest_move(model, task.mean, task.std))
    plain = VmapEngine(model, task, MOMENTUM, same, DEVICES)
    by_autograd = VmapEngine(model, task, MOMENTUM, in_place(build_move(model, task.mean, task.std)), DEVICES)
    works = [replace(work_of(task, devices=devices), learning_rate=rate) for devices, rate in CHUNKS]
    found, wanted = _updates(replayed, model, works), _updates(plain, model, works)
    # A library may choose another kernel for a recording, so that a GPU's results may differ by rounding.
    limit = tolerance(products(unequal_task(name, SIZES)))
    yield within(f"{name}: graphed engine against the same steps without a graph", relative_error(found, wanted), limit)
    if name != "lstm":  # whose fused kernel vmap does not support
        others = _updates(by_autograd, model, works)
        yield within(f"{name}: graphed engine against the vmap engine", relative_error(found, others), limit)
    if given.on_gpu:
        yield figure(f"{name}: the same bit for bit", torch.equal(found, wanted))
        for what, one in (("replayed", replayed), ("without a graph", plain)):
            time = timed(functools.partial(_updates, one, model, works), given.device, *steady(given))
            yield from time.rows(f"{name}: two chunks of {STEPS} steps, {what}")
    else:
        yield equal(f"{name}: recorded operations, bit for bit", torch.equal(found, wanted))


def _updates(engine: Engine, model: FlatModel, works: list[Work]) -> Tensor:
    """Return the updates of chunks one after the other, each from the mean of the one before."""
    start, found = model.initial(), []
    for work in works:
        updates = start.new_empty(len(work.devices), len(start))
        engine.train(start, work, updates)
        found.append(updates)
        start = start + updates.mean(dim=0)
    return torch.cat(found)
