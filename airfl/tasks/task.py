"""A task ready to run: data split into training, validation, public and test, divided among devices; and its model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from airfl.config import Settings
from airfl.errors import UserError
from airfl.streams import Purpose, Streams
from airfl.tasks.datasets import DATASETS
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.models import MODELS
from airfl.tasks.partition import PARTITIONS, Partition, Pool


@dataclass(frozen=True)
class Samples:
    """inputs: [n, *shape], uint8 as in the files; targets: [n], int64."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device) -> Samples:
        """The same on another device."""
        return Samples(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Task:
    """What is learned.

    train holds every training sample, partition says whose each is (held-out ones are nobody's); validation, public and
    test share no sample with it. mean, std: normalisation of an input scaled to [0, 1].
    """

    train: Samples
    validation: Samples
    public: Samples
    test: Samples
    partition: Partition
    mean: float
    std: float
    model: nn.Module

    def to(self, device: torch.device) -> Task:
        """The same with its tensors on another device."""
        return replace(
            self,
            train=self.train.to(device),
            validation=self.validation.to(device),
            public=self.public.to(device),
            test=self.test.to(device),
            model=self.model.to(device),
        )


def build_task(settings: Settings, raw: RawData, streams: Streams) -> Task:
    """Split, divide and model of `settings.task`; UserError where they do not go together."""
    data, model = DATASETS[settings.task.dataset], MODELS[settings.task.model]
    if (model.input_shape, model.classes) != (data.input_shape, data.classes):
        raise UserError(
            f"task.model: {settings.task.model!r} takes inputs of shape {model.input_shape} in {model.classes} "
            f"classes, data set {settings.task.dataset!r} has {data.input_shape} in {data.classes}"
        )
    generator = streams.generator(Purpose.PARTITION)
    order = generator.permutation(len(raw.train_targets))
    held = round(settings.task.validation_share * len(order))
    public = settings.task.public_samples
    pool = order[held + public :]
    if len(pool) < settings.run.devices:
        raise UserError(
            f"run.devices: {settings.run.devices:,} devices for {max(len(pool), 0):,} training samples "
            f"({len(order):,} less {held:,} for validation and {public:,} public); at least one each is needed"
        )
    partition = PARTITIONS[settings.task.partition](
        Pool(
            samples=pool,
            labels=raw.train_targets[pool],
            writers=None if raw.train_writers is None else raw.train_writers[pool],
            devices=settings.run.devices,
            dirichlet_alpha=settings.task.dirichlet_alpha,
        ),
        generator,
    )

    def samples(rows: np.ndarray | slice) -> Samples:
        return Samples(torch.from_numpy(raw.train_inputs[rows]), torch.from_numpy(raw.train_targets[rows]))

    return Task(
        train=samples(np.arange(len(order))),
        validation=samples(order[:held]),
        public=samples(order[held : held + public]),
        test=Samples(torch.from_numpy(raw.test_inputs.copy()), torch.from_numpy(raw.test_targets)),
        partition=partition,
        mean=raw.mean,
        std=raw.std,
        model=_initial_model(settings.task.model, streams),
    )


def _initial_model(name: str, streams: Streams) -> nn.Module:
    """The model with its initial parameters drawn from the run's seed; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(streams.torch_seed(Purpose.INIT))
        return MODELS[name].build()
