"""Pooling, which treats every channel alike and therefore need not know about devices."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from airfl.learning.layers.layer import Tensors, feature_maps, gradient_like

aten = torch.ops.aten


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


class MaxPool:
    """The maximum of every window."""

    def __init__(self, module: nn.Module) -> None:
        layer = cast(nn.MaxPool2d, module)
        stride = layer.kernel_size if layer.stride is None else layer.stride
        sizes = [_pair(value) for value in (layer.kernel_size, stride, layer.padding, layer.dilation)]
        self._window = (*sizes, layer.ceil_mode)

    def forward(
        self, parameters: Tensors, inputs: Tensors, devices: int
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Pool; inputs, feature maps and the positions of the maxima are saved."""
        maps = feature_maps(inputs[0])
        outputs, positions = aten.max_pool2d_with_indices(maps, *self._window)
        return outputs, (inputs[0], maps, positions)

    def backward(self, parameters: Tensors, saved: tuple[Tensor, Tensor, Tensor], grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        inputs, maps, positions = saved
        grad_maps = aten.max_pool2d_with_indices_backward(grad_output, maps, *self._window, positions)
        return (gradient_like(inputs, grad_maps),)


class AdaptiveAveragePool:
    """The mean of every window, for a fixed output size."""

    def __init__(self, module: nn.Module) -> None:
        sizes = _pair(cast(nn.AdaptiveAvgPool2d, module).output_size)
        if None in sizes:
            raise NotImplementedError("adaptive pooling whose output size is that of the input (None)")
        self._sizes = sizes

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Pool; inputs and feature maps are saved."""
        maps = feature_maps(inputs[0])
        return aten._adaptive_avg_pool2d(maps, self._sizes), (inputs[0], maps)

    def backward(self, parameters: Tensors, saved: tuple[Tensor, Tensor], grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        inputs, maps = saved
        return (gradient_like(inputs, aten._adaptive_avg_pool2d_backward(grad_output, maps)),)
