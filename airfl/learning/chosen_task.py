"""The task that a run's settings select, or a user-defined one: its data, its size, and whether its parts fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from airfl.config.settings import Settings
from airfl.config.task import TaskSettings
from airfl.errors import UserError
from airfl.learning.tasks import NO_PARTITION, OWN, check_engine, check_shapes
from airfl.learning.tasks.datasets import load_dataset
from airfl.learning.tasks.datasets.generated import GeneratedDataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.storage.fingerprint import is_own

if TYPE_CHECKING:
    from airfl.learning.own_task import Task


def with_task(settings: Settings, task: Task | None) -> Settings:
    """Return the settings of a run of this user-defined task; unchanged settings if it is None."""
    return task.settings(settings) if task else settings


def load_data(task: TaskSettings, folders: Sequence[Path] | None, own: Task | None = None) -> RawData:
    """Load the data of a user-defined task if it has its own, otherwise the data set of the settings."""
    return own.raw if own and own.raw else load_dataset(task.dataset_part, folders)


def dimension_of(task: TaskSettings, own: Task | None = None) -> int:
    """Return d, the number of parameters of the model. Raises UserError for model "own" without a task."""
    return own.dimension if own else task.model_part.dimension


def training_samples(task: TaskSettings, folders: Sequence[Path] | None = None, own: Task | None = None) -> int:
    """Return the number of training samples; the data is read only if the data set does not declare it."""
    declared = None if own and own.raw else task.dataset_part.training_samples
    return len(load_data(task, folders, own).train_targets) if declared is None else declared


def equal_share(task: TaskSettings, devices: int, samples: int) -> int:
    """Return the samples of a device if all devices have the same number of samples.

    For a generated data set, this is the number that half of the devices have at most, and `samples` has no effect.
    """
    data = None if task.dataset == OWN else task.dataset_part
    if isinstance(data, GeneratedDataset):
        train = int(data.counts(np.array([0.5]))[0][0])
        return max(train - round(task.validation_share * train), 1)
    left = samples - round(task.validation_share * samples) - task.public_samples
    return max(left // devices, 1) if task.partition == OWN else task.partition_rule.samples_of_a_device(left, devices)


def check_fit(settings: Settings) -> None:
    """Check that the model accepts the data set's inputs, and that the partition and `local.engine` are possible.

    Raises UserError otherwise. Needs neither the data nor torch.
    """
    check_shapes(settings.task.model_part, settings.task.dataset_part)
    if settings.task.partition == OWN:
        raise UserError(NO_PARTITION)
    data = settings.task.dataset_part
    if settings.task.partition == "writer" and not data.writers and not is_own(data):
        raise UserError(
            f"task.partition: {data.name} does not name the writers of its samples; choose a partition other than "
            "'writer'"
        )
    check_engine(settings.local.engine, settings.task.model_part)
