"""Local SGD step by step, each a function of tensors: by vmapped autograd, or compiled where a compiler is found."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import shutil
import warnings

import numpy as np
import torch
from torch import Tensor, nn

from airfl.local.batches import NOBODY
from airfl.local.engines.engine import Work
from airfl.local.engines.steps import build_layered_step
from airfl.local.flat import FlatModel
from airfl.local.layers import LayeredModel
from airfl.local.sgd import Step, build_step
from airfl.tasks.task import Task

log = logging.getLogger(__name__)


def compiler_found(device: torch.device) -> bool:
    """Whether torch.compile has what it needs on this device."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++", "cl"))


class VmapEngine:
    """PFELS algorithm 2, lines 6 to 9, with momentum; `step` computes one step of all devices, see `build_step`.

    width: devices that every chunk is filled up to, with such that have no samples, None for as many as there are.
    """

    def __init__(self, model: FlatModel, task: Task, momentum: float, step: Step, width: int | None = None) -> None:
        self._model, self._step, self._width = model, step, width
        one = model.initial()[:1]
        self._learning_rate = one.new_zeros(())  # a number that changes must not compile anew
        self._momentum = one.new_tensor(momentum)

    @torch.no_grad()
    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """See `Engine`."""
        self._learning_rate.fill_(work.learning_rate)
        device = parameters.device
        more = 0 if self._width is None else self._width - len(work.plan)
        present = torch.from_numpy(np.pad(work.present, ((0, more), (0, 0), (0, 0)))).to(device, parameters.dtype)
        rows = torch.nn.functional.pad(work.rows, (0, 0, 0, 0, 0, more))
        start = self._model.split(parameters)
        trained = tuple(part.expand(len(rows), *part.shape).clone() for part in start)
        velocities = tuple(torch.zeros_like(part) for part in trained)
        for step in range(rows.shape[1]):
            now = rows[:, step]
            inputs, targets = work.task.train.inputs[now], work.targets(now)
            there = present[:, step].contiguous()
            self._step(trained, velocities, inputs, targets, there, self._learning_rate, self._momentum)
        blocks = torch.split(updates, self._model.sizes, dim=1)
        for block, after, before in zip(blocks, trained, start, strict=True):
            torch.sub(after[: len(updates)].flatten(1), before.flatten(), out=block)


def compiled_engine(model: FlatModel, task: Task, momentum: float, width: int, batch: int) -> VmapEngine | None:
    """The engine with a compiled step for chunks of `width` devices and batches of that many samples; None where there
    is no compiler or it does not know the model.

    Compiles now, by a step of nobody, which changes nothing.
    """
    device = task.train.targets.device
    if not compiler_found(device):
        return None
    threads = torch.get_num_threads()  # part of what is compiled
    step = _compiled_step(_signature(task.model), _Held(task.model), task.mean, task.std, device.type, threads)
    engine = VmapEngine(model, task, momentum, step, width)
    nobody = Work(task, np.zeros(1, dtype=np.int64), np.full((1, 1, batch), NOBODY), 0.0)
    try:
        with warnings.catch_warnings(action="ignore"):
            engine.train(model.initial(), nobody, torch.empty(1, model.dimension, device=device))
    except Exception as error:  # whatever the compiler's reason, another engine gives the same numbers
        log.debug("the step could not be compiled: %s", error)
        return None
    return engine


class _Held:
    """A module that is no part of a cache's key."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)


def _signature(module: nn.Module) -> str:
    """What tells modules of one structure."""
    return f"{type(module).__qualname__} {module!r} {[tuple(part.shape) for part in module.parameters()]}"


@functools.lru_cache(maxsize=8)
def _compiled_step(
    signature: str, held: _Held, mean: tuple[float, ...], std: tuple[float, ...], device: str, threads: int
) -> Step:
    """One compiled step for all runs of a process whose models have one structure, so that a comparison compiles once:
    by hand-batched layers, else by vmapped autograd; with CUDA graphs on a GPU."""
    log.info("compiling the training step (some 15 s the first time on a machine)")
    mode = "reduce-overhead" if device == "cuda" else None
    layered = LayeredModel.of(held.module)
    step = build_step(FlatModel(held.module), mean, std) if layered is None else build_layered_step(layered, mean, std)
    compiled: Step = torch.compile(step, dynamic=False, fullgraph=True, mode=mode)
    return compiled
