"""The CNN of Fed-SPA on MNIST with 62 classes, for FEMNIST: 24,492 parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class CnnFemnist(Model):
    """CNN with two 5x5 convolutions (10 and 20 channels), each pooled, and a layer of 50; 62 classes (FEMNIST)."""

    name = "cnn-femnist"
    input_shape = (1, 28, 28)
    classes = 62
    parameters = 24_492
    text = "conv 5x5 10-20 with max pooling, fc 50, 62 classes (FEMNIST on a CPU)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 1, 28, 28], logits [batch, 62]."""
        from torch import nn

        return nn.Sequential(
            nn.Conv2d(1, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(10, 20, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(320, 50),
            nn.ReLU(),
            nn.Linear(50, 62),
        )
