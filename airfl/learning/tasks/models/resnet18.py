"""ResNet-18 with group norm, one input channel, 62 classes: 11,192,746 parameters (PFELS section 8.1, FEMNIST)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class ResNet18(Model):
    """ResNet-18 with group norm, one input channel, 62 classes (PFELS section 8.1, FEMNIST)."""

    name = "resnet18"
    input_shape = (1, 28, 28)
    classes = 62
    parameters = 11_192_746
    text = "ResNet-18 with group norm (PFELS on FEMNIST)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 1, 28, 28], logits [batch, 62]."""
        from airfl.learning.tasks.models.modules.resnet18 import build

        return build()
