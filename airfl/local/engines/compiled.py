"""Local SGD as compiled code: on a CPU all steps of a chunk in one call, during which other threads may have Python's
lock; on a GPU step by step, in CUDA graphs."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop

from airfl.local.batches import NOBODY
from airfl.local.engines.engine import Engine, Work
from airfl.local.engines.parallel import side_by_side
from airfl.local.engines.steps import build_layered_move
from airfl.local.engines.vmap import VmapEngine
from airfl.local.flat import FlatModel
from airfl.local.layers import as_layers
from airfl.local.sgd import Move, Parameters, build_move, in_place
from airfl.tasks.task import DividedTask

log = logging.getLogger(__name__)

# torch's, which has no types: body(*carried) for as long as condition(*carried).
repeated = cast(Callable[..., tuple[Tensor, ...]], while_loop)
Training = Callable[[Parameters, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Shape:
    """What is compiled for. Less work is filled up with steps and samples that count for nothing.

    Attributes:
        devices: Devices in a chunk.
        steps: Steps of a device.
        batch: Samples in a batch.
    """

    devices: int
    steps: int
    batch: int


def compiler_found(device: torch.device) -> bool:
    """Whether torch.compile has what it needs on this device."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++", "cl"))


@dataclass(frozen=True)
class CompiledEngine:
    """PFELS algorithm 2, lines 6 to 11, with momentum: one call of a compiled function in each of some threads.

    Attributes:
        model: What is trained.
        momentum: Of local SGD, 0 for none.
        shape: What one thread's part of a chunk is compiled for.
        threads: How many threads.
        training: The compiled function, see `training_by`.
    """

    model: FlatModel
    momentum: float
    shape: Shape
    threads: int
    training: Training

    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """See `Engine`."""
        width, data = self.shape.devices, work.task.train
        devices, steps, batch = work.plan.shape
        rows = np.full((self.shape.steps, self.threads * width, self.shape.batch), NOBODY)
        rows[:steps, :devices, :batch] = np.where(work.present, work.rows.numpy(), NOBODY).swapaxes(0, 1)
        start = self.model.split(parameters)
        # Numbers that change must not compile anew.
        rates = parameters.new_tensor(work.learning_rate), parameters.new_tensor(self.momentum)
        most = torch.tensor(int(work.steps.max(initial=0)))

        @torch.no_grad()  # of each thread its own
        def train(first: int) -> None:
            own = torch.from_numpy(np.ascontiguousarray(rows[:, first : first + width]))
            part = updates[first : first + width]
            part.copy_(self.training(start, data.inputs, data.targets, own, *rates, most)[: len(part)])

        side_by_side([functools.partial(train, first) for first in range(0, devices, width)])


def training_by(move: Move) -> Training:
    """training(start, inputs, targets, rows, learning_rate, momentum, steps): theta_i - theta, [devices, d].

    start: theta, one tensor a parameter; inputs, targets: the training data; rows: of the samples [steps, devices,
    batch], -1 for none; the others are tensors without dimensions, `steps` those to make. `move`: see
    `airfl.local.sgd.move_by`.
    """

    def training(
        start: Parameters,
        inputs: Tensor,
        targets: Tensor,
        rows: Tensor,
        learning_rate: Tensor,
        momentum: Tensor,
        steps: Tensor,
    ) -> Tensor:
        copies = tuple(part.expand(rows.shape[1], *part.shape).clone() for part in start)

        def more(step: Tensor, *_: Tensor) -> Tensor:
            return step < steps

        def one(step: Tensor, *moving: Tensor) -> tuple[Tensor, ...]:
            own = rows.index_select(0, step[None])[0]
            some = own.clamp(min=0)
            batch = inputs[some], targets[some], (own != NOBODY).to(start[0].dtype)
            parameters, velocities = moving[: len(start)], moving[len(start) :]
            parameters, velocities = move(parameters, velocities, *batch, learning_rate, momentum)
            return step + 1, *parameters, *velocities

        still = tuple(torch.zeros_like(part) for part in copies)
        moved = repeated(more, one, (torch.zeros_like(steps), *copies, *still))[1 : 1 + len(start)]
        return torch.cat([(after - before).flatten(1) for after, before in zip(moved, start, strict=True)], dim=1)

    return training


def compiled_engine(model: FlatModel, task: DividedTask, momentum: float, shape: Shape, threads: int) -> Engine | None:
    """The engine for work of this shape, in so many threads on a CPU; None where there is no compiler or it does not
    know the model.

    Compiles now, by work of nobody, which changes nothing.
    """
    device = task.train.targets.device
    if not compiler_found(device):
        return None
    address = (_signature(task), _Held(model), task.mean, task.std)
    engine: Engine
    if device.type == "cuda":
        engine = VmapEngine(model, task, momentum, _compiled_step(*address), shape.devices)
    else:
        threads = min(threads, shape.devices)
        part = replace(shape, devices=-(-shape.devices // threads))
        engine = CompiledEngine(model, momentum, part, threads, _compiled_training(*address))
    nobody = Work(task, np.zeros(1, dtype=np.int64), np.full((1, 1, shape.batch), NOBODY), 0.0)
    try:
        with warnings.catch_warnings(action="ignore"):
            engine.train(model.initial(), nobody, torch.empty(1, model.dimension, device=device))
    except Exception as error:  # whatever the compiler's reason, another engine gives the same numbers
        log.debug("training could not be compiled: %s", error)
        return None
    return engine


class _Held:
    """A model that is no part of a cache's key."""

    def __init__(self, model: FlatModel) -> None:
        self.model = model

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)


def _signature(task: DividedTask) -> str:
    """What tells modules of one structure; a user's own are told by their code, too."""
    module, own = task.model, "" if task.own is None else task.own.fingerprint
    return f"{type(module).__qualname__} {module!r} {[tuple(part.shape) for part in module.parameters()]} {own}"


# One compiled function for all runs of a process whose models have one structure, so that a comparison compiles once.


@functools.lru_cache(maxsize=8)
def _compiled_training(signature: str, held: _Held, mean: tuple[float, ...], std: tuple[float, ...]) -> Training:
    log.info("compiling the training (some 15 s the first time on a machine)")
    training = training_by(_move(held.model, mean, std))
    compiled: Training = torch.compile(training, dynamic=False, fullgraph=True, options={"cpp_wrapper": True})
    return compiled


@functools.lru_cache(maxsize=8)
def _compiled_step(signature: str, held: _Held, mean: tuple[float, ...], std: tuple[float, ...]) -> Callable[..., None]:
    log.info("compiling the training step")
    step = in_place(_move(held.model, mean, std))
    compiled: Callable[..., None] = torch.compile(step, dynamic=False, fullgraph=True, mode="reduce-overhead")
    return compiled


def _move(model: FlatModel, mean: tuple[float, ...], std: tuple[float, ...]) -> Move:
    """By hand-batched layers, else by vmapped autograd."""
    found = as_layers(model.module, model.loss)
    return build_move(model, mean, std) if isinstance(found, str) else build_layered_move(found, mean, std)
