"""CNN with two padded 5x5 convolutions (64 and 128 channels) and layers of 384 and 192: 3,431,754 parameters.

(Fed-SMP, SVHN.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class CnnSvhn(Model):
    """CNN with two padded 5x5 convolutions (64 and 128 channels), layers of 384 and 192 (Fed-SMP, SVHN)."""

    name = "cnn-svhn"
    input_shape = (3, 32, 32)
    classes = 10
    parameters = 3_431_754
    text = "conv 5x5 64-128, fc 384-192 (Fed-SMP on SVHN)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 3, 32, 32], logits [batch, 10]."""
        from torch import nn

        return nn.Sequential(
            nn.Conv2d(3, 64, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(64, 128, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(8192, 384),
            nn.ReLU(),
            nn.Linear(384, 192),
            nn.ReLU(),
            nn.Linear(192, 10),
        )
