"""CNN with two padded 5x5 convolutions (32 and 64 channels) and a layer of 512: 1,663,370 parameters.

(Fed-SMP, Fashion-MNIST; the CNN of McMahan et al. 2017.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class CnnFashion(Model):
    """CNN with two padded 5x5 convolutions (32 and 64 channels) and a layer of 512 (Fed-SMP, Fashion-MNIST)."""

    name = "cnn-fashion"
    input_shape = (1, 28, 28)
    classes = 10
    parameters = 1_663_370
    text = "conv 5x5 32-64, fc 512 (Fed-SMP on Fashion-MNIST)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 1, 28, 28], logits [batch, 10]."""
        from torch import nn

        return nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
            nn.Linear(512, 10),
        )
