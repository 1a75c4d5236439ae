"""Updates of every engine on the device against the loop engine on the CPU.

The tolerance follows from the number of operations. A product of matrices with n terms a sum, computed with relative
rounding errors of eps, is wrong by about eps sqrt(n) of its norm where the signs of the errors are random, and so are
several products one after another: eps sqrt(n_1 + n_2 + ...). A step of a network makes three products a layer
(outputs, gradients of inputs, gradients of weights), whose errors are added here, as are those of the steps. MARGIN is
for what the norm of an update has lost by cancellation over a batch, and for units whose input rounds to the other side
of 0. What the CPU's own loop is wrong by, against float64, stands beside it.

Where the inputs of products are rounded to fewer digits (u), three times the error is added that the CPU's loop has
with inputs rounded in that way (rounding.py). For an LSTM, which the CPU computes in one operation, each of its
products is taken to be wrong by up to another u, whatever its length.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from airfl.learning.batches import BatchRule, plan_batches
from airfl.learning.engines.engine import Work
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.engines.table import ENGINES
from airfl.learning.flat import FlatModel
from airfl.learning.task import DividedTask
from airfl.learning.tasks.models import MODELS
from airfl.runtime.precision import Precision, precision
from airfl.runtime.streams import Streams
from experiments.gpu.rounding import ROUNDINGS, RoundedProducts
from experiments.gpu.rows import IMITATED, Given, Row, figure, guarded, within
from experiments.gpu.worlds import relative_error, unequal_task

NAMES = ("mlp", "cnn", "lstm", "resnet18")
SIZES = (7, 3, 12, 4, 5)
STEPS, BATCH, RATE, MOMENTUM = 2, 4, 0.05, 0.9
MARGIN = 8.0
TIMES = 3.0
"""How often the error of an update by the CPU with rounded inputs is allowed for."""
EPS = float(torch.finfo(torch.float32).eps) / 2
ROUNDED: dict[Precision, float] = {"float32": 0.0, "tf32": 2.0**-11, "bf16": 2.0**-9}
"""Largest relative error by which an input of a product is rounded."""
COMPILED = "compiled"
LONGEST_COMPILED = 100_000
"""Parameters of the largest model that is compiled; the larger ones take minutes."""


def engines(given: Given) -> Iterator[Row]:
    """Yield the errors of all engines that need no compiler."""
    for name in given.pick(NAMES, NAMES[:3]):
        yield from guarded(name, functools.partial(_engines_of, given, name))


def compiled(given: Given) -> Iterator[Row]:
    """Yield the errors of the compiled engines, for the smaller models."""
    logging.basicConfig()
    logging.getLogger("airfl.learning.engines.compiled").setLevel(logging.DEBUG)  # why an engine could not be compiled
    if given.place == IMITATED:
        yield figure("the compiled engines", "torch.compile is not imitated")
        return
    for name in given.pick(NAMES, NAMES[:1]):
        if (MODELS[name].parameters or 0) <= LONGEST_COMPILED:
            yield from guarded(name, functools.partial(_compiled_of, given, name))


def products(task: DividedTask) -> list[int]:
    """Return the number of terms of each product of a step's forward pass over a batch."""
    found: list[int] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            found.append(layer.weight[0].numel())
        elif isinstance(layer, nn.LSTM):
            terms = layer.input_size + layer.hidden_size
            found.extend([terms] * (layer.num_layers * inputs[0].shape[1]))

    hooks = [part.register_forward_hook(note) for part in task.model.modules()]
    with torch.no_grad():
        task.model(task.train.inputs[:BATCH])
    for hook in hooks:
        hook.remove()
    return found


def tolerance(terms: list[int], steps: int = STEPS) -> float:
    """Return the largest relative error of an update in float32; see the text of this module."""
    return 3 * steps * MARGIN * EPS * math.sqrt(sum(terms))


def limits(name: str, wanted: Tensor, size: dict[str, int]) -> dict[Precision, float]:
    """Return the largest relative error of an update by the precision of its products.

    Args:
        name: The model.
        wanted: The updates of the CPU's loop in float32.
        size: The size of its work, see `updates`.
    """
    task = unequal_task(name, SIZES)
    terms = products(task)
    if any(isinstance(part, nn.LSTM) for part in task.model.modules()):
        rounded = {kind: STEPS * one * math.sqrt(len(terms)) for kind, one in ROUNDED.items()}
    else:
        rounded = {kind: rounded_error(name, kind, wanted, size) for kind in ROUNDED}
    return {kind: tolerance(terms) + TIMES * error for kind, error in rounded.items()}


def rounded_error(name: str, kind: Precision, wanted: Tensor, size: dict[str, int]) -> float:
    """Return the largest relative error of the CPU's loop where inputs of products are rounded as for a precision."""
    found = [0.0]
    for rounding in ROUNDINGS[kind]:
        with RoundedProducts(rounding):
            rounded = updates("loop", unequal_task(name, SIZES), **size)
        assert rounded is not None
        found.append(relative_error(rounded, wanted))
    return max(found)


def work_of(task: DividedTask, steps: int = STEPS, batch: int = BATCH, devices: int = 3) -> Work:
    """Return so many local steps of the first devices."""
    chosen, sizes = np.arange(devices), task.partition.sizes
    rule = BatchRule(0, steps, batch)
    plan = plan_batches(rule, Streams(6), 3, chosen, sizes[chosen], int(sizes.max()))
    return Work(task, chosen, plan, RATE)


def updates(engine: str, task: DividedTask, momentum: float = MOMENTUM, **size: int) -> Tensor | None:
    """Return the updates of an engine, [devices, d]; None if it does not support the model or the machine."""
    work, model = work_of(task, **size), FlatModel(task.model)
    devices, steps, batch = work.plan.shape
    built = ENGINES[engine](EngineSpec(model, task, momentum, devices, steps, batch))
    if built is None:
        return None
    start = model.initial()
    found = start.new_empty(devices, len(start))
    built.train(start, work, found)
    return found


def supports(engine: str, name: str) -> bool:
    """Whether this stage compares an engine for a model. "dense" is for CPUs alone, "graphed" has its own stage."""
    if engine in ("dense", "graphed"):
        return False
    if engine == "vmap":
        return MODELS[name].batched
    return engine == "loop" or MODELS[name].layered


def _engines_of(given: Given, name: str) -> Iterator[Row]:
    # A task is moved with its model, so that every use has one of its own.
    size = {"devices": given.pick(3, 2), "batch": given.pick(BATCH, 2)}
    wanted = updates("loop", unequal_task(name, SIZES), **size)
    exact = updates("loop", unequal_task(name, SIZES, torch.float64), **size)
    assert wanted is not None
    assert exact is not None
    yield figure(f"{name}: the loop on the CPU against float64", relative_error(wanted, exact))
    allowed = limits(name, wanted, size)
    for engine in ENGINES:
        if engine.startswith(COMPILED) or not supports(engine, name):
            continue
        for kind in ROUNDED:
            if kind != "float32" and engine not in ("loop", "layers"):
                continue
            what = f"{name}: {engine}, {kind}"
            given_engine = (given, name, engine, kind, what, allowed[kind], wanted, size)
            yield from guarded(what, functools.partial(_compared, *given_engine))


def _compared(
    given: Given, name: str, engine: str, kind: Precision, what: str, limit: float, wanted: Tensor, size: dict[str, int]
) -> Iterator[Row]:
    """Check an engine's updates on the device against those of the loop on the CPU."""
    with precision(kind):
        found = updates(engine, unequal_task(name, SIZES).to(given.device), **size)
    if found is None:
        yield Row(what, "the engine does not support the model", "updates", False)
    else:
        yield within(what, relative_error(found, wanted), limit)


def _compiled_of(given: Given, name: str) -> Iterator[Row]:
    terms = products(unequal_task(name, SIZES))
    wanted = updates("loop", unequal_task(name, SIZES))
    assert wanted is not None
    for engine in ENGINES:
        if engine.startswith(COMPILED) and supports("layers", name):
            begin = time.perf_counter()
            what = f"{name}: {engine}"
            compared = functools.partial(_compared, given, name, engine, "float32", what, tolerance(terms), wanted, {})
            rows = guarded(what, compared)
            for row in rows:
                # Without a compiler, training takes another engine, and nothing is wrong.
                missing = row.passed is False and not row.detail and not given.on_gpu
                yield replace(row, passed=None) if missing else row
            yield figure(f"{name}: {engine}, first time", f"{time.perf_counter() - begin:.1f} s")
