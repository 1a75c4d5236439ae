"""A task ready to run: data split into training, validation, public and test, divided among devices; and its model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from airfl.config import Settings
from airfl.streams import Purpose, Streams
from airfl.tasks import check_fit
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.division import Division, divide
from airfl.tasks.models import MODELS
from airfl.tasks.partition import Partition


@dataclass(frozen=True)
class Samples:
    """inputs: [n, *shape], uint8 as in the files, possibly memory-mapped; targets: [n], int64."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device) -> Samples:
        """The same on another device."""
        return Samples(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class DividedTask:
    """What is learned.

    train holds every training sample, partition says whose each is (held-out ones are nobody's); validation, public and
    test share no sample with what devices have. mean, std: normalisation of each channel of an input scaled to [0, 1].
    """

    train: Samples
    validation: Samples
    public: Samples
    test: Samples
    partition: Partition
    mean: tuple[float, ...]
    std: tuple[float, ...]
    model: nn.Module

    def to(self, device: torch.device) -> DividedTask:
        """The same with its tensors on another device."""
        return replace(
            self,
            train=self.train.to(device),
            validation=self.validation.to(device),
            public=self.public.to(device),
            test=self.test.to(device),
            model=self.model.to(device),
        )


def build_task(settings: Settings, raw: RawData, streams: Streams) -> DividedTask:
    """Split, divide and model of `settings.task`; UserError where they do not go together."""
    check_fit(settings)
    division = divide(settings, raw, streams)
    return DividedTask(
        train=_samples(raw.train_inputs, raw.train_targets),
        validation=_samples(raw.train_inputs[division.validation], raw.train_targets[division.validation]),
        public=_samples(raw.train_inputs[division.public], raw.train_targets[division.public]),
        test=_test_samples(raw, division),
        partition=division.partition,
        mean=raw.mean,
        std=raw.std,
        model=_initial_model(settings.task.model, streams),
    )


def _test_samples(raw: RawData, division: Division) -> Samples:
    if division.test is None:
        return _samples(raw.test_inputs, raw.test_targets)
    return _samples(raw.test_inputs[division.test], raw.test_targets[division.test])


def _samples(inputs: NDArray[np.uint8], targets: NDArray[np.int64]) -> Samples:
    """Tensors on the arrays' own memory, which may be mapped from a file; arrays that are read-only are copied."""
    arrays = [array if array.flags.writeable else array.copy() for array in (inputs, targets)]
    return Samples(*(torch.from_numpy(array) for array in arrays))


def _initial_model(name: str, streams: Streams) -> nn.Module:
    """The model with its initial parameters drawn from the run's seed; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(streams.torch_seed(Purpose.INIT))
        return MODELS[name].build()
