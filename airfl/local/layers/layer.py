"""What a hand-batched layer is: the passes of many devices' copies of it, each with its own parameters, at once.

Values between layers are features [devices, batch, *shape] or pictures [batch, devices channels, height, width], in
memory pixel by pixel: a convolution of all devices is then one grouped convolution, and pooling knows nothing of them.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

Parts = tuple[Tensor, ...]
"""A layer's parameters, or their gradients: [devices, *shape] each, in the order of `module.parameters()`."""


class Layer(Protocol):
    """A layer, or an operation between layers, of all devices. What `forward` saves the other passes take."""

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Any]:
        """Output, and what is saved of the pass."""
        ...

    def backward(self, parts: Parts, saved: Any, slope: Tensor) -> Parts:
        """Slope of the loss by each input, from that by the output."""
        ...


class ParametricLayer(Layer, Protocol):
    """A layer with parameters."""

    def gradient(self, saved: Any, slope: Tensor, devices: int) -> Parts:
        """Slopes by the parameters, summed over the samples, [devices, *shape] each, which the caller may change."""
        ...

    def each(self, saved: Any, slope: Tensor, devices: int) -> Parts:
        """The same of every sample, [devices, batch, *shape] each."""
        ...

    def squares(self, saved: Any, slope: Tensor, devices: int) -> Tensor:
        """Squared l2 norm of every sample's gradient, [devices, batch]."""
        ...


def squares_of(gradients: Parts) -> Tensor:
    """Squared l2 norms of gradients that are written down, [devices, batch, *shape] each -> [devices, batch]."""
    return torch.stack([part.flatten(2).square().sum(dim=2) for part in gradients]).sum(dim=0)


def pictures(inputs: Tensor) -> Tensor:
    """[devices, batch, channels, height, width] -> [batch, devices channels, height, width], pixel by pixel."""
    if inputs.dim() == 4:
        return inputs
    devices, batch, channels, height, width = inputs.shape
    by_pixel = inputs.permute(1, 3, 4, 0, 2).contiguous()
    return by_pixel.view(batch, height, width, devices * channels).permute(0, 3, 1, 2)


def by_device(values: Tensor, devices: int) -> Tensor:
    """[batch, devices channels, height, width] -> a view [devices, batch, channels, height, width]."""
    if values.dim() == 5:
        return values
    batch, channels, *size = values.shape
    return values.view(batch, devices, channels // devices, *size).transpose(0, 1)


def slope_like(inputs: Tensor, slope: Tensor) -> Tensor:
    """A slope by pictures, as one by what they were made of."""
    return by_device(slope, inputs.shape[0]) if inputs.dim() == 5 else slope
