"""Tasks: data sets, their division among devices, models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def build_model(name: str) -> nn.Module:
    """A model of the table (`airfl models`), freshly initialised from torch's global generator.

    Raises UserError for a name that is not there.
    """
    from airfl.errors import UserError, unknown_name
    from airfl.tasks.models import MODELS

    if name not in MODELS:
        raise UserError(unknown_name("model", name, MODELS))
    return MODELS[name].build()
