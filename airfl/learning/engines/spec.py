"""What an engine is built for, and what a run gives it to compute."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from airfl.learning.flat import FlatModel
from airfl.learning.task import DividedTask


@dataclass(frozen=True)
class EngineSpec:
    """The work for which an engine is built.

    Attributes:
        model: The model to train.
        task: The data.
        momentum: Momentum of local SGD, 0 for none.
        chunk: Devices in a chunk.
        steps: Largest number of steps of a device in a round.
        batch: Samples in a batch.
        gradient_clip_norm: Limit of the l2 norm of a step's gradient, inf for none.
    """

    model: FlatModel
    task: DividedTask
    momentum: float
    chunk: int
    steps: int
    batch: int
    gradient_clip_norm: float = math.inf

    @property
    def device(self) -> torch.device:
        """The torch device on which the data lies."""
        return self.task.train.targets.device


@dataclass(frozen=True)
class Workload:
    """The size of a run's local training.

    Attributes:
        batch: Samples in a batch.
        steps: Largest number of steps of a device in a round.
        selected: Devices in a round.
        rounds: Rounds of the run.
    """

    batch: int
    steps: int
    selected: int
    rounds: int
