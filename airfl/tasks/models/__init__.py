"""The table of models. A new one is one file beside this one and one line here; torch is imported to build one."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelEntry:
    """A model: the module with its `build()`, shape of one input, classes, exact parameter count, one line of text."""

    home: str
    input_shape: tuple[int, ...]
    classes: int
    parameters: int
    text: str

    def build(self) -> nn.Module:
        """A freshly initialised model; takes [batch, *input_shape] float32 and gives logits [batch, classes]."""
        module: nn.Module = import_module(self.home).build()
        return module


MODELS: dict[str, ModelEntry] = {
    "mlp": ModelEntry("airfl.tasks.models.mlp", (1, 28, 28), 10, 25_450, "784-32-10, ReLU"),
    "cnn": ModelEntry(
        "airfl.tasks.models.cnn",
        (1, 28, 28),
        10,
        21_840,
        "conv 5x5 10-20 with max pooling, fc 50 (as Fed-SPA on MNIST)",
    ),
}
