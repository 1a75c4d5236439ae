"""The CNN of Fed-SPA on MNIST with 62 classes, for FEMNIST: 24,492 parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.cnn import small_cnn
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
        return small_cnn(self.classes)
