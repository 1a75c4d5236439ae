"""The interface of engines, which compute the local SGD of a chunk of devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from airfl.learning.batches import NOBODY
from airfl.learning.sgd import normalise
from airfl.learning.task import DividedTask
from airfl.learning.work import Meanwhile
from channels.transfer import on_device


@dataclass(frozen=True)
class Work:
    """The local SGD that a chunk of devices has to do.

    Attributes:
        task: Data, model and loss.
        devices: Device ids, [chunk].
        plan: Positions of each step's samples within the device's own samples, [chunk, steps, batch], padded with -1.
            A device's empty steps come last.
        learning_rate: eta of the round.
    """

    task: DividedTask
    devices: NDArray[np.int64]
    plan: NDArray[np.int64]
    learning_rate: float

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """Number of SGD steps of each device, [chunk]."""
        return np.asarray(self.present.any(axis=2).sum(axis=1), dtype=np.int64)

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Whether each entry of the plan is a sample, [chunk, steps, batch]."""
        return np.asarray(self.plan != NOBODY)

    @cached_property
    def rows(self) -> Tensor:
        """Rows of the training data, [chunk, steps, batch]; arbitrary where there is no sample."""
        partition = self.task.partition
        starts = partition.offsets[self.devices][:, None, None]
        rows = partition.indices[starts + np.maximum(self.plan, 0)]
        return on_device(rows, self.task.train.targets.device)

    def inputs(self, rows: Tensor) -> Tensor:
        """Return the normalised inputs at rows of the training data."""
        return normalise(self.task.train.inputs[rows], self.task.mean, self.task.std)

    def targets(self, rows: Tensor) -> Tensor:
        """Return the targets at rows of the training data."""
        return self.task.train.targets[rows]


class Engine(Protocol):
    """Computes the updates of a chunk of devices."""

    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """Write theta_i - theta of every device into updates [chunk, d]; parameters: theta, [d]."""
        ...


@runtime_checkable
class OverlappingEngine(Protocol):
    """An engine whose threads can train while the calling thread does something else."""

    def train_while(self, parameters: Tensor, work: Work, updates: Tensor, meanwhile: Meanwhile) -> None:
        """Do as `Engine.train`.

        meanwhile: called by this thread before it takes part; not called where there is no other thread.
        """
        ...
