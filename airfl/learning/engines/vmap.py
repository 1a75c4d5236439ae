"""Local SGD step by step, where each step is a function of tensors, for instance of vmapped autograd."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from airfl.learning.engines.engine import Work
from airfl.learning.flat import FlatModel
from airfl.learning.sgd import Step
from airfl.learning.task import DividedTask
from channels.transfer import on_device


class VmapEngine:
    """PFELS algorithm 2, lines 6 to 11, with momentum.

    step: makes one step of all devices, see `airfl.learning.sgd.in_place`. width: the number of devices to which every
    chunk is padded with devices without samples; None for no padding.
    """

    def __init__(
        self, model: FlatModel, task: DividedTask, momentum: float, step: Step, width: int | None = None
    ) -> None:
        self._model, self._step, self._width = model, step, width
        one = model.initial()[:1]
        self._learning_rate = one.new_zeros(())  # a tensor, so that a new value does not trigger a recompilation
        self._momentum = one.new_tensor(momentum)

    @torch.no_grad()
    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """Make all steps, each for all devices, and write theta_i - theta into `updates`."""
        self._learning_rate.fill_(work.learning_rate)
        device = parameters.device
        more = 0 if self._width is None else self._width - len(work.plan)
        present = on_device(np.pad(work.present, ((0, more), (0, 0), (0, 0))), device, parameters.dtype)
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
