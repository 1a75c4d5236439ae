"""Tasks: data sets, their division among devices, models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name
from airfl.tasks.datasets import DATASETS
from airfl.tasks.models import MODELS

if TYPE_CHECKING:
    from torch import nn

    from airfl.config.settings import Settings
    from airfl.tasks.own import Task


def build_model(name: str) -> nn.Module:
    """A model of the table (`airfl models`), freshly initialised from torch's global generator.

    Raises UserError for a name that is not there.
    """
    if name not in MODELS:
        raise UserError(unknown_name("model", name, MODELS))
    return MODELS[name].build()


def with_task(settings: Settings, task: Task | None) -> Settings:
    """The settings of a run of this own task, or as they are."""
    return task.settings(settings) if task else settings


def dimension_of(settings: Settings, task: Task | None = None) -> int:
    """d, parameters of the model; UserError where that is an own one, and there is no task."""
    return task.dimension if task else MODELS[settings.task.model].parameters


def equal_share(settings: Settings, samples: int) -> int:
    """Of a device, if so many training samples, without those that are held out, are divided equally."""
    held = round(settings.task.validation_share * samples) + settings.task.public_samples
    return max((samples - held) // settings.run.devices, 1)


def check_fit(settings: Settings) -> None:
    """UserError if the model does not take the data set's inputs, or `local.engine` does not take the model.

    Needs neither data nor torch.
    """
    data, model = DATASETS[settings.task.dataset], MODELS[settings.task.model]
    needed = (data.input_shape, data.classes)
    if (model.input_shape, model.classes) != needed:
        fitting = [name for name, entry in MODELS.items() if (entry.input_shape, entry.classes) == needed]
        raise UserError(
            f"task.model: {settings.task.model!r} takes inputs of shape {model.input_shape} in {model.classes} "
            f"classes, data set {settings.task.dataset!r} has {data.input_shape} in {data.classes} "
            f"(fitting: {', '.join(fitting)})"
        )
    check_engine(settings)


def check_engine(settings: Settings) -> None:
    """UserError if `local.engine` is one that cannot compute the model; needs neither data nor torch."""
    engine, model = settings.local.engine, settings.task.model
    entry = MODELS[model]
    possible = {"vmap": entry.batched, "compiled": entry.batched or entry.layered, "layers": entry.layered}
    if not possible.get(engine.partition("-")[0], True):
        fitting = [name for name, fits in possible.items() if fits]
        raise UserError(
            f"local.engine: {engine!r} does not know what model {model!r} is made of; "
            f"{', '.join(repr(name) for name in ('auto', *fitting, 'loop'))} are possible"
        )
