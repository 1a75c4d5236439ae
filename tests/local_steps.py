"""Helpers to check local steps sample by sample: models, data of a few devices of unequal size, autograd gradients."""

import copy
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.learning.flat import FlatModel
from airfl.learning.task import DividedTask, Samples
from airfl.learning.tasks.partitions import Partition

CPU = torch.device("cpu")


class Applied(nn.Module):
    """A module that applies a function to another module and the inputs."""

    def __init__(self, module: nn.Module, call: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(self, inputs: Tensor) -> Tensor:
        return self.call(self.module, inputs)  # type: ignore[no-any-return]


def divided_task(model: nn.Module, sizes: Sequence[int]) -> DividedTask:
    """Return a task with inputs of shape [1, 2, 3] and three classes, shuffled and divided by the devices' `sizes`."""
    generator, count = torch.Generator().manual_seed(1), sum(sizes)
    inputs = 2 * torch.randn(count, 1, 2, 3, generator=generator)
    train = Samples(inputs, torch.randint(0, 3, (count,), generator=generator))
    partition = Partition(np.random.default_rng(0).permutation(count), np.cumsum([0, *sizes]))
    return DividedTask(train, train, train, train, partition, (), (), model)


def point(task: DividedTask, number: int) -> Tensor:
    """Return parameters that differ from the model's initial ones."""
    initial = FlatModel(task.model).initial()
    return initial + 0.3 * torch.randn(initial.shape, generator=torch.Generator().manual_seed(number))


def own_rows(task: DividedTask, device: int) -> list[int]:
    """Return the indices of a device's samples."""
    partition = task.partition
    return partition.indices[partition.offsets[device] : partition.offsets[device + 1]].tolist()


@lru_cache(maxsize=8)
def copy_of(model: nn.Module) -> nn.Module:
    """Return a copy of the model, so that its parameters can be changed freely."""
    return copy.deepcopy(model)


def sample_gradient(task: DividedTask, vector: Tensor, row: int, bound: float = math.inf) -> Tensor:
    """Return the clipped gradient of one sample's loss plus the model's penalty."""
    module = copy_of(task.model)
    nn.utils.vector_to_parameters(vector.clone(), module.parameters())
    loss = F.cross_entropy(module(task.train.inputs[row : row + 1]), task.train.targets[row : row + 1])
    if hasattr(module, "penalty"):
        loss = loss + module.penalty(dict(module.named_parameters()))
    gradient = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(module.parameters()))])
    return gradient * min(1.0, bound / float(gradient.norm()))
