"""VGG-11 for 32x32 images, without batch norm: 9,750,922 parameters (PFELS section 8.1, CIFAR-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class Vgg11(Model):
    """VGG-11 for 32x32 images, without batch norm (PFELS section 8.1, CIFAR-10)."""

    name = "vgg11"
    input_shape = (3, 32, 32)
    classes = 10
    parameters = 9_750_922
    text = "VGG-11 without batch norm (PFELS on CIFAR-10)"

    def build(self) -> nn.Module:
        """Return the module: input [batch, 3, 32, 32], logits [batch, 10]."""
        from airfl.learning.tasks.models.modules.vgg11 import build

        return build()
