"""Convolutions: those of all devices are one grouped convolution."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from airfl.learning.layers.layer import Tensors, by_device, feature_maps, gradient_like, squares_of

convolution_backward = torch.ops.aten.convolution_backward


class Convolution:
    """A two-dimensional, zero-padded convolution of every device."""

    def __init__(self, module: nn.Module) -> None:
        layer = cast(nn.Conv2d, module)
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            raise NotImplementedError("a convolution whose padding is not a number of zeros")
        self.bias, self._groups = layer.bias is not None, layer.groups
        self._shape = layer.weight.shape
        self._stride, self._padding, self._dilation = list(layer.stride), list(layer.padding), list(layer.dilation)

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Convolve; the inputs are saved, both as given and as feature maps."""
        maps = feature_maps(inputs[0])
        bias = parameters[1].reshape(-1) if self.bias else None
        geometry = (self._stride, self._padding, self._dilation)
        outputs = torch.conv2d(maps, parameters[0].flatten(0, 1), bias, *geometry, devices * self._groups)
        return outputs, (inputs[0], maps)

    def backward(self, parameters: Tensors, saved: tuple[Tensor, Tensor], grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        inputs, maps = saved
        weight = parameters[0].flatten(0, 1)
        grad_maps, _, _ = self._backward(grad_output, maps, weight, len(parameters[0]), [True, False, False])
        return (gradient_like(inputs, grad_maps),)

    def gradient(self, saved: tuple[Tensor, Tensor], grad_output: Tensor, devices: int) -> Tensors:
        """Return the gradients of weight and bias."""
        return self._gradients(saved[1], grad_output, devices)

    def each(self, saved: tuple[Tensor, Tensor], grad_output: Tensor, devices: int) -> Tensors:
        """Return the per-sample gradients, by treating every sample as a device with a batch of one."""
        batch = len(grad_output)
        maps, grad_outputs = (_samples_as_devices(by_device(part, devices)) for part in (saved[1], grad_output))
        return tuple(
            part.view(devices, batch, *part.shape[1:]) for part in self._gradients(maps, grad_outputs, devices * batch)
        )

    def squares(self, saved: tuple[Tensor, Tensor], grad_output: Tensor, devices: int) -> Tensor:
        """Return the squared norms of the per-sample gradients."""
        return squares_of(self.each(saved, grad_output, devices))

    def _gradients(self, maps: Tensor, grad_output: Tensor, devices: int) -> Tensors:
        shape = (devices * self._shape[0], *self._shape[1:])  # of the weights only shape and layout matter here
        like = torch.empty(shape, dtype=maps.dtype, device=maps.device, memory_format=torch.channels_last)
        _, weight, _ = self._backward(grad_output, maps, like, devices, [False, True, False])
        grad_weight = weight.reshape(devices, *self._shape)
        return (grad_weight, grad_output.sum(dim=(0, 2, 3)).view(devices, -1)) if self.bias else (grad_weight,)

    def _backward(self, grad_output: Tensor, maps: Tensor, weight: Tensor, devices: int, mask: list[bool]) -> Tensors:
        geometry = (self._stride, self._padding, self._dilation)
        groups = devices * self._groups
        gradients: Tensors = convolution_backward(
            grad_output, maps, weight, None, *geometry, False, [0, 0], groups, mask
        )
        return gradients


def _samples_as_devices(values: Tensor) -> Tensor:
    """[devices, batch, channels, height, width] -> [1, devices batch channels, height, width], channels last."""
    channels_last = values.permute(3, 4, 0, 1, 2).reshape(1, *values.shape[3:], -1)
    return channels_last.permute(0, 3, 1, 2)
