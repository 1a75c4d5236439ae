"""Tasks: data sets, their division among devices, models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.fingerprint import is_own
from airfl.tasks.datasets import load_dataset
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.models.model import Model
from airfl.tasks.models.registry import MODELS

if TYPE_CHECKING:
    from airfl.config.settings import Settings
    from airfl.config.task import TaskSettings
    from airfl.tasks.datasets.raw import RawData
    from airfl.tasks.own import Task


OWN = "own"
"""The model, data or shares of an `airfl.Task`, which no part stands for."""
NO_PARTITION = f"task.partition: {OWN!r} stands for that of an airfl.Task; give it one, or name another"


def with_task(settings: Settings, task: Task | None) -> Settings:
    """The settings of a run of this own task, or as they are."""
    return task.settings(settings) if task else settings


def load_data(task: TaskSettings, folders: Sequence[Path] | None, own: Task | None = None) -> RawData:
    """The data of an own task, where it brings some, or else of the data set that is named."""
    return own.raw if own and own.raw else load_dataset(task.dataset_part, folders)


def dimension_of(task: TaskSettings, own: Task | None = None) -> int:
    """d, parameters of the model; UserError where that is an own one, and there is no task."""
    return own.dimension if own else task.model_part.dimension


def training_samples(task: TaskSettings, folders: Sequence[Path] | None = None, own: Task | None = None) -> int:
    """How many training samples there are, without reading them where the data set says so."""
    declared = None if own and own.raw else task.dataset_part.training_samples
    return len(load_data(task, folders, own).train_targets) if declared is None else declared


def equal_share(task: TaskSettings, devices: int, samples: int) -> int:
    """Of a device, if so many training samples, without those that are held out, are divided equally."""
    held = round(task.validation_share * samples) + task.public_samples
    return max((samples - held) // devices, 1)


def check_fit(settings: Settings) -> None:
    """UserError if the model does not take the data set's inputs, or `local.engine` does not take the model.

    Needs neither data nor torch.
    """
    check_shapes(settings.task.model_part, settings.task.dataset_part)
    if settings.task.partition == OWN:
        raise UserError(NO_PARTITION)
    data = settings.task.dataset_part
    if settings.task.partition == "writer" and not data.writers and not is_own(data):
        raise UserError(
            f"task.partition: {data.name} as it is here does not say who wrote what: other partitions are possible"
        )
    check_engine(settings.local.engine, settings.task.model_part)


def check_shapes(model: Model, data: Dataset) -> None:
    """UserError, with the models that fit, if a model does not take a data set's inputs, or has other classes."""
    needed = (tuple(data.input_shape), data.classes)
    if (tuple(model.input_shape), model.classes) == needed:
        return
    fitting = [name for name in MODELS.classes.values() if (MODELS[name].input_shape, MODELS[name].classes) == needed]
    raise UserError(
        f"task.model: {named(model)} takes inputs of shape {tuple(model.input_shape)} in {model.classes} classes, data "
        f"set {named(data)} has {needed[0]} in {data.classes} (fitting: {', '.join(fitting) or 'none that is known'})"
    )


def check_engine(engine: str, model: Model) -> None:
    """UserError if `local.engine` is one that cannot compute the model; needs neither data nor torch.

    What computes a model of the user's own is found out when it runs.
    """
    if is_own(model):
        return
    possible = {"vmap": model.batched, "compiled": model.batched or model.layered, "layers": model.layered}
    if not possible.get(engine.partition("-")[0], True):
        fitting = [name for name, fits in possible.items() if fits]
        raise UserError(
            f"local.engine: {engine!r} does not know what model {named(model)} is made of; "
            f"{', '.join(repr(name) for name in ('auto', *fitting, 'loop'))} are possible"
        )


def named(part: Model | Dataset) -> str:
    """What messages call a part: its name in quotes, or its class with its parameters."""
    return repr(part) if is_own(part) else repr(part.name)
