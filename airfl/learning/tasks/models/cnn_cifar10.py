"""CNN with three unpadded 3x3 convolutions (64, 128 and 256 channels) and layers of 128 and 256: 537,610 parameters.

(Fed-SPA, CIFAR-10.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class CnnCifar10(Model):
    """CNN with three unpadded 3x3 convolutions (64, 128, 256 channels), layers of 128 and 256 (Fed-SPA, CIFAR-10)."""

    name = "cnn-cifar10"
    input_shape = (3, 32, 32)
    classes = 10
    parameters = 537_610
    text = "conv 3x3 64-128-256, fc 128-256 (Fed-SPA on CIFAR-10)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 3, 32, 32], logits [batch, 10]."""
        from torch import nn

        return nn.Sequential(
            nn.Conv2d(3, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(128, 256, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(1024, 128),
            nn.ReLU(),
            nn.Linear(128, 256),
            nn.ReLU(),
            nn.Linear(256, 10),
        )
