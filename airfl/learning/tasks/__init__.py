"""Data sets, models and partitions, and which of them fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.models.model import Model
from airfl.learning.tasks.models.registry import MODELS
from airfl.storage.fingerprint import is_own

if TYPE_CHECKING:
    from torch import nn


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


def check_shapes(model: Model, data: Dataset) -> None:
    """Check that a model has the input shape and classes of a data set; the UserError lists the models that have."""
    needed = (tuple(data.input_shape), data.classes)
    if (tuple(model.input_shape), model.classes) == needed:
        return
    fitted = {name: MODELS[name]().fitted(data) for name in MODELS.classes.values()}
    fitting = [name for name, one in fitted.items() if (tuple(one.input_shape), one.classes) == needed]
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
    possible = {
        "vmap": model.batched,
        "compiled": model.batched or model.layered,
        "graphed": model.batched or model.layered,
        "layers": model.layered,
        "dense": model.fully_connected,
    }
    if not possible.get(engine.partition("-")[0], True):
        fitting = [name for name, fits in possible.items() if fits]
        raise UserError(
            f"local.engine: {engine!r} does not support model {display_name(model)}; "
            f"use one of {', '.join(repr(name) for name in ('auto', *fitting, 'loop'))}"
        )


def display_name(part: Model | Dataset) -> str:
    """Return how messages refer to a model or data set: its name in quotes, or its class with its parameters."""
    return repr(part) if is_own(part) else repr(part.name)
