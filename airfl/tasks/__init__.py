"""Tasks: data sets, their partition among the devices, and models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name
from airfl.fingerprint import is_own
from airfl.tasks.datasets import load_dataset
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.models.model import Model
from airfl.tasks.models.registry import MODELS

if TYPE_CHECKING:
    from torch import nn

    from airfl.config.settings import Settings
    from airfl.config.task import TaskSettings
    from airfl.tasks.datasets.raw import RawData
    from airfl.tasks.own import Task


OWN = "own"
"""Setting for the model, data or partition of an `airfl.Task` that is not an object with a name."""
NO_PARTITION = f"task.partition: {OWN!r} stands for the partition of an airfl.Task, which is missing; choose another"


def build_model(name: str) -> nn.Module:
    """Build a model of the table (`airfl models`), initialised from torch's global generator.

    Raises:
        UserError: There is no model of that name.
    """
    if name not in MODELS:
        raise UserError(unknown_name("model", name, MODELS))
    return MODELS[name]().build()


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
    """Return the samples of a device if the training samples that are not held out are divided equally."""
    held = round(task.validation_share * samples) + task.public_samples
    return max((samples - held) // devices, 1)


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


def check_shapes(model: Model, data: Dataset) -> None:
    """Check that a model has the input shape and classes of a data set; the UserError lists the models that have."""
    needed = (tuple(data.input_shape), data.classes)
    if (tuple(model.input_shape), model.classes) == needed:
        return
    fitting = [name for name in MODELS.classes.values() if (MODELS[name].input_shape, MODELS[name].classes) == needed]
    raise UserError(
        f"task.model: {display_name(model)} takes inputs of shape {tuple(model.input_shape)} in {model.classes} "
        f"classes, but data set {display_name(data)} has {needed[0]} in {data.classes} (models that fit: "
        f"{', '.join(fitting) or 'none'})"
    )


def check_engine(engine: str, model: Model) -> None:
    """Check that `local.engine` supports the model; raises UserError otherwise. Needs neither the data nor torch.

    For user-defined models this is checked when the run starts.
    """
    if is_own(model):
        return
    possible = {"vmap": model.batched, "compiled": model.batched or model.layered, "layers": model.layered}
    if not possible.get(engine.partition("-")[0], True):
        fitting = [name for name, fits in possible.items() if fits]
        raise UserError(
            f"local.engine: {engine!r} does not support model {display_name(model)}; "
            f"use one of {', '.join(repr(name) for name in ('auto', *fitting, 'loop'))}"
        )


def display_name(part: Model | Dataset) -> str:
    """Return how messages refer to a model or data set: its name in quotes, or its class with its parameters."""
    return repr(part) if is_own(part) else repr(part.name)
