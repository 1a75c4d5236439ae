"""Multilayer perceptron 784-64-10 with sigmoid: 50,890 parameters (SoteriaFL, MNIST)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class MlpSigmoid(Model):
    """Multilayer perceptron 784-64-10 with sigmoid (SoteriaFL, MNIST)."""

    name = "mlp-sigmoid"
    input_shape = (1, 28, 28)
    classes = 10
    parameters = 50_890
    fully_connected = True
    text = "784-64-10, sigmoid (SoteriaFL on MNIST)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 1, 28, 28], logits [batch, 10]."""
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.Sigmoid(), nn.Linear(64, 10))
