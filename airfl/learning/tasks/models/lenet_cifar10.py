"""LeNet-5 with ReLU and max pooling for CIFAR-10: two 5x5 convolutions (6 and 16 channels), 62,006 parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class LenetCifar10(Model):
    """CNN with two 5x5 convolutions (6 and 16 channels), each pooled, and layers of 120 and 84 (LeNet-5, CIFAR-10)."""

    name = "lenet-cifar10"
    input_shape = (3, 32, 32)
    classes = 10
    parameters = 62_006
    text = "LeNet-5: conv 5x5 6-16 with max pooling, fc 120-84 (CIFAR-10 on a CPU)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 3, 32, 32], logits [batch, 10]."""
        from torch import nn

        return nn.Sequential(
            nn.Conv2d(3, 6, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(6, 16, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )
