"""Multilayer perceptron 784-32-10 with ReLU: 25,450 parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class Mlp(Model):
    """Multilayer perceptron 784-32-10 with ReLU."""

    name = "mlp"
    input_shape = (1, 28, 28)
    classes = 10
    parameters = 25_450
    fully_connected = True
    text = "784-32-10, ReLU"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 1, 28, 28], logits [batch, 10]."""
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
