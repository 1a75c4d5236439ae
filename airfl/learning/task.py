"""A task that is ready to run: divided data and the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from airfl.config import Settings
from airfl.config.task import TaskSettings
from airfl.learning.chosen_task import check_fit
from airfl.learning.division import Division, divide
from airfl.learning.flat import Loss
from airfl.learning.generated import TEST_DEVICES, RunData, SamplesOnDemand, generate, population_of
from airfl.learning.own_task import Task
from airfl.learning.promises import SAMPLES
from airfl.learning.samples import Samples, TaskIdentity, normal_parameters, seeded
from airfl.learning.tasks.datasets.raw import RawData
from airfl.learning.tasks.partitions.rule import ComputedIndices, Indices, Partition
from airfl.runtime.streams import Streams
from airfl.storage.fingerprint import is_own

__all__ = ["DividedTask", "Samples", "TaskIdentity", "build_task", "seeded"]
TRAINING_SAMPLES = 10_000
"""Most training samples of which the loss is computed: enough for a curve, cheap for a large model."""


@dataclass(frozen=True)
class DividedTask:
    """Data, partition, model and loss of a run.

    Attributes:
        train: All training samples, including held-out ones, which belong to no device. They may be generated
            when they are read.
        validation: Held-out samples.
        public: Public samples, which belong to no device.
        test: Samples of the test set.
        partition: The rows of `train` that belong to each device.
        mean: Mean of each channel of an input scaled to [0, 1], for normalisation; empty for none.
        std: Standard deviation of each channel likewise.
        model: The model before training.
        loss: The loss function, None for cross-entropy.
        metrics: Further per-sample metrics to average over the test set, by name.
        by_pixel: Whether the model accepts images in channels-last memory format.
        own: Identity of a user-defined task; None for named models and data sets.
    """

    train: Samples | SamplesOnDemand
    validation: Samples
    public: Samples
    test: Samples
    partition: Partition
    mean: tuple[float, ...]
    std: tuple[float, ...]
    model: nn.Module
    loss: Loss | None = None
    metrics: Mapping[str, Loss] = field(default_factory=dict)
    by_pixel: bool = True
    own: TaskIdentity | None = None

    @cached_property
    def loss_rows(self) -> Indices:
        """Rows of the devices' training samples of which the loss is computed, all or `TRAINING_SAMPLES` of them.

        Those of a device follow one another in the partition, so that evenly spaced ones count every device by its
        number of samples. Where the samples of devices are computed when they are asked for, they are of the first
        devices, as test samples are: such devices differ from the others by chance alone.
        """
        indices, total = self.partition.indices, len(self.partition.indices)
        if total > TRAINING_SAMPLES and isinstance(indices, ComputedIndices):
            total = int(self.partition.offsets[: TEST_DEVICES + 1][-1])
        count = min(total, TRAINING_SAMPLES)
        return indices[np.arange(count, dtype=np.int64) * total // count]

    def to(self, device: torch.device) -> DividedTask:
        """Return the task with its tensors on another torch device."""
        return replace(
            self,
            train=self.train.to(device),
            validation=self.validation.to(device),
            public=self.public.to(device),
            test=self.test.to(device),
            model=self.model.to(device),
        )


def build_task(settings: Settings, raw: RawData, streams: Streams, own: Task | None = None) -> DividedTask:
    """Divide the data and build the model of `settings.task` or of a user-defined task.

    Raises UserError if data, partition, model and engine do not fit together.
    """
    own = own or own_task(settings.task)
    if own is None:
        check_fit(settings)
    population = population_of(settings.task, settings.run.devices, streams)
    if population is None:
        data = _stored(settings, raw, streams, own)
    else:
        data = generate(population, settings.task.public_samples)
        raw = _first_samples(raw, data)
    module = own.module(streams) if own else seeded(settings.task.model_part.build, streams)
    if settings.task.initial_std is not None:
        module = normal_parameters(module, settings.task.initial_std, streams)
    return DividedTask(
        train=data.train,
        validation=data.validation,
        public=data.public,
        test=data.test,
        partition=data.partition,
        mean=raw.mean,
        std=raw.std,
        model=module,
        **({} if own is None else _of_own(own, module, raw)),
    )


def own_task(task: TaskSettings) -> Task | None:
    """Return the task of settings with a user-defined model or data set, which gets the same checks; else None."""
    model, data = task.model_part, task.dataset_part
    return Task(model=model, data=data) if is_own(model) or is_own(data) else None


def _of_own(own: Task, module: nn.Module, raw: RawData) -> dict[str, Any]:
    """Return the fields that a user-defined task has beside data and model."""
    by_pixel = own.try_on(module, raw) if own.by_pixel is None else own.by_pixel
    return {"loss": own.loss, "metrics": own.metrics, "by_pixel": by_pixel, "own": own.identity(module)}


def _stored(settings: Settings, raw: RawData, streams: Streams, own: Task | None) -> RunData:
    """Divide stored samples."""
    division = divide(settings.task, settings.run.devices, raw, streams, own.shares if own else None)
    return RunData(
        train=_samples(raw.train_inputs, raw.train_targets),
        validation=_samples(raw.train_inputs[division.validation], raw.train_targets[division.validation]),
        public=_samples(raw.train_inputs[division.public], raw.train_targets[division.public]),
        test=_test_samples(raw, division),
        partition=division.partition,
    )


def _first_samples(raw: RawData, data: RunData) -> RawData:
    """Return a few generated samples in the form of a loader's result, on which a user-defined model is tried."""
    some = slice(0, min(SAMPLES, len(data.train)))
    return replace(
        raw,
        train_inputs=data.train.inputs[some].numpy(),
        train_targets=data.train.targets[some].numpy(),
        test_inputs=data.test.inputs.numpy(),
        test_targets=data.test.targets.numpy(),
    )


def _test_samples(raw: RawData, division: Division) -> Samples:
    if division.test is None:
        return _samples(raw.test_inputs, raw.test_targets)
    return _samples(raw.test_inputs[division.test], raw.test_targets[division.test])


def _samples(inputs: NDArray[Any], targets: NDArray[Any]) -> Samples:
    """Return tensors that share the arrays' memory, which may be memory-mapped; read-only arrays are copied."""
    arrays = [array if array.flags.writeable else array.copy() for array in (inputs, targets)]
    return Samples(*(torch.from_numpy(array) for array in arrays))
