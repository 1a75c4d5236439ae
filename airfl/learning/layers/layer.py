"""The interface of hand-batched layers, which compute many devices' copies of a layer at once.

Every device has its own parameters. The values between layers are either features [devices, batch, *shape] or feature
maps [batch, devices channels, height, width] in channels-last memory format. In the latter form the convolutions of all
devices are one grouped convolution, and pooling need not know about devices.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...]
"""A layer's parameters or their gradients, [devices, *shape] each, in the order of `module.parameters()`; also its
inputs or the gradients with respect to them."""


class Layer(Protocol):
    """A layer, or an operation between layers, for all devices. `forward` saves what the other passes need."""

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Any]:
        """Return the output and what is saved for the backward pass."""
        ...

    def backward(self, parameters: Tensors, saved: Any, grad_output: Tensor) -> Tensors:
        """Return the gradient of the loss with respect to each input, given that with respect to the output."""
        ...


class ParametricLayer(Layer, Protocol):
    """A layer with parameters."""

    def gradient(self, saved: Any, grad_output: Tensor, devices: int) -> Tensors:
        """Return the gradients of the parameters, summed over the samples, [devices, *shape] each.

        The caller may modify them.
        """
        ...

    def each(self, saved: Any, grad_output: Tensor, devices: int) -> Tensors:
        """Return the per-sample gradients of the parameters, [devices, batch, *shape] each."""
        ...

    def squares(self, saved: Any, grad_output: Tensor, devices: int) -> Tensor:
        """Return the squared l2 norm of every per-sample gradient, [devices, batch]."""
        ...


def squares_of(gradients: Tensors) -> Tensor:
    """Return the squared l2 norms of per-sample gradients, [devices, batch, *shape] each -> [devices, batch]."""
    return torch.stack([part.flatten(2).square().sum(dim=2) for part in gradients]).sum(dim=0)


def feature_maps(inputs: Tensor) -> Tensor:
    """Merge devices into channels: [devices, batch, channels, height, width] -> [batch, devices channels, height,
    width], channels last. Inputs that are already in this form are returned unchanged."""
    if inputs.dim() == 4:
        return inputs
    devices, batch, channels, height, width = inputs.shape
    channels_last = inputs.permute(1, 3, 4, 0, 2).contiguous()
    return channels_last.view(batch, height, width, devices * channels).permute(0, 3, 1, 2)


def by_device(values: Tensor, devices: int) -> Tensor:
    """Return a view [devices, batch, channels, height, width] of feature maps [batch, devices channels, height,
    width]."""
    if values.dim() == 5:
        return values
    batch, channels, *size = values.shape
    return values.view(batch, devices, channels // devices, *size).transpose(0, 1)


def gradient_like(inputs: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient with respect to feature maps in the shape of the inputs they were made from."""
    return by_device(gradient, inputs.shape[0]) if inputs.dim() == 5 else gradient
