"""What an engine is: a way of computing the local SGD of a chunk of devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.local.batches import NOBODY
from airfl.local.sgd import normalise
from airfl.tasks.task import DividedTask


@dataclass(frozen=True)
class Work:
    """Local SGD of a chunk of devices.

    Attributes:
        task: What is learned.
        devices: Ids, [chunk].
        plan: Positions of the samples of every step within a device's own, [chunk, steps, batch], -1 for none; a
            device's steps without samples come last.
        learning_rate: eta of the round.
    """

    task: DividedTask
    devices: NDArray[np.int64]
    plan: NDArray[np.int64]
    learning_rate: float

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """That each device makes, [chunk]."""
        return np.asarray(self.present.any(axis=2).sum(axis=1), dtype=np.int64)

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Which places of the plan hold a sample."""
        return np.asarray(self.plan != NOBODY)

    @cached_property
    def rows(self) -> Tensor:
        """Rows of the training data, [chunk, steps, batch]; any row where there is no sample."""
        partition = self.task.partition
        starts = partition.offsets[self.devices][:, None, None]
        rows = partition.indices[starts + np.maximum(self.plan, 0)]
        return torch.from_numpy(rows).to(self.task.train.targets.device)

    def inputs(self, rows: Tensor) -> Tensor:
        """Normalised inputs at rows of the training data."""
        return normalise(self.task.train.inputs[rows], self.task.mean, self.task.std)

    def targets(self, rows: Tensor) -> Tensor:
        """Their targets."""
        return self.task.train.targets[rows]


class Engine(Protocol):
    """Computes updates."""

    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """theta_i - theta of every device of the work into updates [chunk, d]; parameters: theta, [d]."""
        ...
