"""Convolutions: those of all devices are one grouped convolution, or on a GPU batched matrix products."""

from __future__ import annotations

from math import prod
from typing import cast

import torch
from torch import Tensor, nn

from airfl.learning.layers.layer import Tensors, by_device, feature_maps, gradient_like, squares_of
from airfl.learning.layers.patches import Window, convolve, input_gradient, patches_of, weight_gradient
from airfl.learning.layers.products import batched_product, rounded
from airfl.runtime.precision import current_precision

GROUPED_CHANNELS, GROUPED_WINDOW, GROUPED_POSITIONS = (32, 64), 9, 16
"""Fewest and most channels, most entries of the window and fewest positions of the outputs of a convolution that cuDNN
computes faster in many groups, in tf32."""

Saved = tuple[Tensor, Tensor, Tensor | None]
"""The inputs of a convolution as given and as feature maps, and their patches if these were computed."""

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
        sizes = (tuple(sizes) for sizes in (layer.kernel_size, layer.stride, layer.padding))
        self._window = Window(*cast(tuple[tuple[int, int], ...], sizes))

    def by_products(self, maps: Tensor) -> bool:
        """Whether the convolution of these feature maps is computed by matrix products of patches.

        cuDNN computes a convolution of many groups faster only in tf32, with small windows over some tens of channels
        and over many positions (`gpu.py --stages convolutions`).
        """
        if not self._may_be_products(maps):
            return False
        filters, channels = self._shape[:2]
        least, most = GROUPED_CHANNELS
        small = self._shape[2:].numel() <= GROUPED_WINDOW
        grouped = least <= channels <= most and filters <= most and small
        return current_precision() != "tf32" or not grouped or prod(self._size_of(maps)) < GROUPED_POSITIONS

    def _may_be_products(self, maps: Tensor) -> bool:
        return maps.is_cuda and self._groups == 1 and self._dilation == [1, 1]

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Saved]:
        """Convolve; the inputs are saved, as given and as feature maps, and their patches if these are computed."""
        maps = feature_maps(inputs[0])
        if self.by_products(maps):
            patches = patches_of(rounded(maps), devices, self._window)
            bias = parameters[1] if self.bias else None
            return convolve(patches, parameters[0], bias, len(maps), *self._size_of(maps)), (inputs[0], maps, patches)
        bias = parameters[1].reshape(-1) if self.bias else None
        geometry = (self._stride, self._padding, self._dilation)
        outputs = torch.conv2d(maps, parameters[0].flatten(0, 1), bias, *geometry, devices * self._groups)
        return outputs, (inputs[0], maps, None)

    def backward(self, parameters: Tensors, saved: Saved, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        inputs, maps, patches = saved
        if patches is not None:
            height, width = maps.shape[2:]
            grad_maps = input_gradient(rounded(grad_output), parameters[0], height, width, self._window)
            return (gradient_like(inputs, grad_maps),)
        weight = parameters[0].flatten(0, 1)
        grad_maps, _, _ = self._backward(grad_output, maps, weight, len(parameters[0]), [True, False, False])
        return (gradient_like(inputs, grad_maps),)

    def gradient(self, saved: Saved, grad_output: Tensor, devices: int) -> Tensors:
        """Return the gradients of weight and bias."""
        _, maps, patches = saved
        if patches is None:
            return self._gradients(maps, grad_output, devices)
        grad_weight = weight_gradient(patches, rounded(grad_output), self._shape[1], self._window)
        return (grad_weight, self._bias_gradient(grad_output, devices)) if self.bias else (grad_weight,)

    def each(self, saved: Saved, grad_output: Tensor, devices: int) -> Tensors:
        """Return the per-sample gradients, by treating every sample as a device with a batch of one.

        On a GPU they are products of patches whatever computed the outputs: a group a sample is slow in cuDNN.
        """
        batch, (_, maps, patches) = len(grad_output), saved
        if patches is None and self._may_be_products(maps):
            patches = patches_of(rounded(maps), devices, self._window)
        if patches is not None:
            return self._each_by_products(patches, grad_output, devices)
        maps, grad_outputs = (_samples_as_devices(by_device(part, devices)) for part in (maps, grad_output))
        return tuple(
            part.view(devices, batch, *part.shape[1:]) for part in self._gradients(maps, grad_outputs, devices * batch)
        )

    def squares(self, saved: Saved, grad_output: Tensor, devices: int) -> Tensor:
        """Return the squared norms of the per-sample gradients."""
        return squares_of(self.each(saved, grad_output, devices))

    def _gradients(self, maps: Tensor, grad_output: Tensor, devices: int) -> Tensors:
        shape = (devices * self._shape[0], *self._shape[1:])  # of the weights only shape and layout matter here
        like = torch.empty(shape, dtype=maps.dtype, device=maps.device, memory_format=torch.channels_last)
        _, weight, _ = self._backward(grad_output, maps, like, devices, [False, True, False])
        grad_weight = weight.reshape(devices, *self._shape)
        return (grad_weight, self._bias_gradient(grad_output, devices)) if self.bias else (grad_weight,)

    def _bias_gradient(self, grad_output: Tensor, devices: int) -> Tensor:
        return grad_output.sum(dim=(0, 2, 3)).view(devices, -1)

    def _each_by_products(self, patches: Tensor, grad_output: Tensor, devices: int) -> Tensors:
        """Return the per-sample gradients, one product a sample."""
        batch = len(grad_output)
        grad_outputs = by_device(grad_output, devices).flatten(0, 1).flatten(2)  # [devices batch, channels, positions]
        of_samples = patches.reshape(devices * batch, grad_outputs.shape[2], -1)
        weight = batched_product(grad_outputs, of_samples).view(devices, batch, -1, *self._window.size, self._shape[1])
        weight = weight.permute(0, 1, 2, 5, 3, 4)
        return (weight, grad_outputs.sum(dim=2).view(devices, batch, -1)) if self.bias else (weight,)

    def _size_of(self, maps: Tensor) -> tuple[int, int]:
        """Return height and width of the outputs."""
        window = self._window
        sizes = zip(maps.shape[2:], window.padding, window.size, window.stride, strict=True)
        height, width = ((size + 2 * padding - seen) // step + 1 for size, padding, seen, step in sizes)
        return height, width

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
