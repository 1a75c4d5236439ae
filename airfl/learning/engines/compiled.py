"""Local SGD as compiled code: on a CPU all steps of a chunk in one call, which releases Python's lock; on a GPU step by
step."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop

from airfl.learning.batches import NOBODY
from airfl.learning.engines.engine import Engine, Work
from airfl.learning.engines.parallel import run_in_threads
from airfl.learning.engines.steps import fastest_move
from airfl.learning.engines.vmap import VmapEngine
from airfl.learning.flat import FlatModel
from airfl.learning.samples import Samples
from airfl.learning.sgd import Move, Parameters, in_place
from airfl.learning.task import DividedTask

log = logging.getLogger(__name__)

# torch's function is untyped: it applies body(*carried) as long as condition(*carried) holds.
typed_while_loop = cast(Callable[..., tuple[Tensor, ...]], while_loop)
Training = Callable[[Parameters, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Shape:
    """The shape of the work that code is compiled for. Smaller work is padded with empty steps and samples.

    Attributes:
        devices: Devices in a chunk.
        steps: Steps of each device.
        batch: Samples in a batch.
    """

    devices: int
    steps: int
    batch: int


def compiler_found(device: torch.device) -> bool:
    """Whether the compiler that torch.compile needs for this device is installed."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++", "cl"))


@dataclass(frozen=True)
class CompiledEngine:
    """PFELS algorithm 2, lines 6 to 11, with momentum, by one call of a compiled function per thread.

    Attributes:
        model: The model to train.
        momentum: Momentum of local SGD, 0 for none.
        shape: Shape of one thread's part of a chunk.
        threads: Number of threads.
        training: The compiled function, see `training_by`.
    """

    model: FlatModel
    momentum: float
    shape: Shape
    threads: int
    training: Training

    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """Split the chunk among the threads, and write theta_i - theta into `updates`."""
        width, data = self.shape.devices, work.task.train
        assert isinstance(data, Samples)  # as `compiled_engine` has found
        devices, steps, batch = work.plan.shape
        rows = np.full((self.shape.steps, self.threads * width, self.shape.batch), NOBODY)
        rows[:steps, :devices, :batch] = np.where(work.present, work.rows.numpy(), NOBODY).swapaxes(0, 1)
        start = self.model.split(parameters)
        # Tensors, so that new values do not trigger a recompilation.
        rates = parameters.new_tensor(work.learning_rate), parameters.new_tensor(self.momentum)
        count = torch.tensor(int(work.steps.max(initial=0)))

        @torch.no_grad()  # this mode is per thread
        def train(first: int) -> None:
            own = torch.from_numpy(np.ascontiguousarray(rows[:, first : first + width]))
            part = updates[first : first + width]
            part.copy_(self.training(start, data.inputs, data.targets, own, *rates, count)[: len(part)])

        run_in_threads([functools.partial(train, first) for first in range(0, devices, width)])


def training_by(move: Move) -> Training:
    """Return training(start, inputs, targets, rows, learning_rate, momentum, steps) -> theta_i - theta, [devices, d].

    start: theta, one tensor per parameter; inputs, targets: the training data; rows: row numbers of the samples,
    [steps, devices, batch], -1 for none. The others are zero-dimensional tensors, `steps` being the number of steps to
    make. `move`: see `airfl.learning.sgd.move_by`.
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

        def condition(step: Tensor, *_: Tensor) -> Tensor:
            return step < steps

        def body(step: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
            of_step = rows.index_select(0, step[None])[0]
            valid = of_step.clamp(min=0)
            batch = inputs[valid], targets[valid], (of_step != NOBODY).to(start[0].dtype)
            parameters, velocities = carried[: len(start)], carried[len(start) :]
            parameters, velocities = move(parameters, velocities, *batch, learning_rate, momentum)
            return step + 1, *parameters, *velocities

        velocities = tuple(torch.zeros_like(part) for part in copies)
        carried = typed_while_loop(condition, body, (torch.zeros_like(steps), *copies, *velocities))
        trained = carried[1 : 1 + len(start)]
        return torch.cat([(after - before).flatten(1) for after, before in zip(trained, start, strict=True)], dim=1)

    return training


def compiled_engine(model: FlatModel, task: DividedTask, momentum: float, shape: Shape, threads: int) -> Engine | None:
    """Return the engine for work of this shape, with this many threads on a CPU.

    The code is compiled now, by a call with empty work. Returns None if there is no compiler or it fails on the
    model, and for samples that are generated when needed, whose tensors change from chunk to chunk.
    """
    device = task.train.targets.device
    if not isinstance(task.train, Samples) or not compiler_found(device):
        return None
    key = (_signature(task), _NotInKey(model), task.mean, task.std)
    engine: Engine
    if device.type == "cuda":
        engine = VmapEngine(model, task, momentum, _compiled_step(shape, *key), shape.devices)
    else:
        threads = min(threads, shape.devices)
        part = replace(shape, devices=-(-shape.devices // threads))
        engine = CompiledEngine(model, momentum, part, threads, _compiled_training(part, *key))
    empty = Work(task, np.zeros(1, dtype=np.int64), np.full((1, 1, shape.batch), NOBODY), 0.0)
    try:
        with warnings.catch_warnings(action="ignore"):
            engine.train(model.initial(), empty, torch.empty(1, model.dimension, device=device))
    except Exception as error:  # whatever the reason is, another engine computes the same
        log.debug("training could not be compiled: %s", error)
        return None
    return engine


class _NotInKey:
    """A model passed to a cached function without being part of the cache key."""

    def __init__(self, model: FlatModel) -> None:
        self.model = model

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NotInKey)


def _signature(task: DividedTask) -> str:
    """Return a text that is equal for modules of the same structure, for user-defined ones of the same code, with
    training data of the same shape."""
    module, own = task.model, "" if task.own is None else task.own.fingerprint
    shapes = [tuple(part.shape) for part in module.parameters()]
    data = [(part.dtype, tuple(part.shape)) for part in (task.train.inputs, task.train.targets)]
    return f"{type(module).__qualname__} {module!r} {shapes} {data} {own}"


F = TypeVar("F", bound=Callable[..., object])


def _with_own_code(function: F) -> F:
    """Return the function with a code object of its own.

    torch keeps what it has compiled with the code object, of which all functions of one definition are closures. From
    the ninth model or shape on, it would refuse to compile, and say so in a warning.
    """
    assert isinstance(function, FunctionType)
    code, made = function.__code__.replace(), (function.__name__, function.__defaults__, function.__closure__)
    return cast(F, FunctionType(code, function.__globals__, *made))


# Runs of a process whose models and work have the same form share a compiled function, so that a comparison compiles
# once.


@functools.lru_cache(maxsize=8)
def _compiled_training(
    shape: Shape, signature: str, held: _NotInKey, mean: tuple[float, ...], std: tuple[float, ...]
) -> Training:
    log.info("compiling the local training (about 15 s the first time on a machine)")
    training = _with_own_code(training_by(fastest_move(held.model, mean, std)))
    compiled: Training = torch.compile(training, dynamic=False, fullgraph=True, options={"cpp_wrapper": True})
    return compiled


@functools.lru_cache(maxsize=8)
def _compiled_step(
    shape: Shape, signature: str, held: _NotInKey, mean: tuple[float, ...], std: tuple[float, ...]
) -> Callable[..., None]:
    log.info("compiling the training step")
    # Without CUDA graphs, for which torch does not take a step that changes the parameters where they are.
    step = _with_own_code(in_place(fastest_move(held.model, mean, std)))
    compiled: Callable[..., None] = torch.compile(step, dynamic=False, fullgraph=True)
    return compiled
