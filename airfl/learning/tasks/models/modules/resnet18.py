"""ResNet-18 with group norm, one input channel, 62 classes: 11,192,746 parameters (PFELS section 8.1, FEMNIST).

The network of He et al. 2016, with a 7x7 stem of stride 2 and max pooling. Every batch norm is replaced by a group norm
of 32 channels per group with one scale and one offset per *group*, which the paper's parameter count implies.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHANNELS_IN_A_GROUP = 32
CLASSES = 62


class GroupNorm(nn.Module):
    """Group norm with one affine pair a group: [batch, channels, height, width] -> the same."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.groups = channels // CHANNELS_IN_A_GROUP
        self.weight = nn.Parameter(torch.ones(self.groups))
        self.bias = nn.Parameter(torch.zeros(self.groups))

    def forward(self, inputs: Tensor) -> Tensor:
        """Every group to mean 0 and variance 1, then its own scale and offset."""
        scale = self.weight.repeat_interleave(CHANNELS_IN_A_GROUP)
        offset = self.bias.repeat_interleave(CHANNELS_IN_A_GROUP)
        return F.group_norm(inputs, self.groups, scale, offset)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            GroupNorm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            GroupNorm(outputs),
        )
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), GroupNorm(outputs))
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """relu(body + shortcut)."""
        return F.relu(self.body(inputs) + self.shortcut(inputs))


def build() -> nn.Module:
    """Return the module: input [batch, 1, 28, 28], logits [batch, 62]."""
    stem = [nn.Conv2d(1, 64, 7, 2, padding=3, bias=False), GroupNorm(64), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    blocks: list[nn.Module] = []
    channels = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [BasicBlock(channels, outputs, stride), BasicBlock(outputs, outputs, 1)]
        channels = outputs
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")  # as in He et al.
    return model
