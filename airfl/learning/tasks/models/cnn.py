"""CNN with two 5x5 convolutions (10 and 20 channels), each pooled, and a layer of 50: 21,840 parameters (Fed-SPA)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class Cnn(Model):
    """CNN with two 5x5 convolutions (10 and 20 channels), each pooled, and a layer of 50 (Fed-SPA, MNIST)."""

    name = "cnn"
    input_shape = (1, 28, 28)
    classes = 10
    parameters = 21_840
    text = "conv 5x5 10-20 with max pooling, fc 50 (Fed-SPA on MNIST)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 1, 28, 28], logits [batch, 10]."""
        return small_cnn(self.classes)


def small_cnn(classes: int) -> nn.Module:
    """Return the layers for images of one channel: input [batch, 1, 28, 28], logits [batch, classes]."""
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
        nn.Linear(50, classes),
    )
