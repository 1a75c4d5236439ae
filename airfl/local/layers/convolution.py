"""Convolutions: of all devices as one, in groups."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from airfl.local.layers.layer import Parts, by_device, pictures, slope_like, squares_of

backward_of = torch.ops.aten.convolution_backward


class Convolution:
    """A two-dimensional convolution of every device, its pictures zero-padded."""

    def __init__(self, module: nn.Module) -> None:
        layer = cast(nn.Conv2d, module)
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            raise NotImplementedError("padding other than by a number of zeros")
        self.bias, self._groups = layer.bias is not None, layer.groups
        self._shape = layer.weight.shape
        self._stride, self._padding, self._dilation = list(layer.stride), list(layer.padding), list(layer.dilation)

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """See `Layer`; the inputs are saved, as given and as pictures."""
        given = inputs[0]
        seen = pictures(given)
        bias = parts[1].reshape(-1) if self.bias else None
        places = (self._stride, self._padding, self._dilation)
        found = torch.conv2d(seen, parts[0].flatten(0, 1), bias, *places, devices * self._groups)
        return found, (given, seen)

    def backward(self, parts: Parts, saved: tuple[Tensor, Tensor], slope: Tensor) -> Parts:
        """See `Layer`."""
        given, seen = saved
        found, _, _ = self._backward(slope, seen, parts[0].flatten(0, 1), len(parts[0]), [True, False, False])
        return (slope_like(given, found),)

    def gradient(self, saved: tuple[Tensor, Tensor], slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`."""
        return self._gradients(saved[1], slope, devices)

    def each(self, saved: tuple[Tensor, Tensor], slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`: every sample is a device with a batch of one."""
        batch = len(slope)
        seen, slopes = (_samples_as_devices(by_device(part, devices)) for part in (saved[1], slope))
        return tuple(
            part.view(devices, batch, *part.shape[1:]) for part in self._gradients(seen, slopes, devices * batch)
        )

    def squares(self, saved: tuple[Tensor, Tensor], slope: Tensor, devices: int) -> Tensor:
        """See `ParametricLayer`."""
        return squares_of(self.each(saved, slope, devices))

    def _gradients(self, seen: Tensor, slope: Tensor, devices: int) -> Parts:
        shape = (devices * self._shape[0], *self._shape[1:])  # all that counts of the weights here
        like = torch.empty(shape, dtype=seen.dtype, device=seen.device, memory_format=torch.channels_last)
        _, weight, _ = self._backward(slope, seen, like, devices, [False, True, False])
        found = weight.reshape(devices, *self._shape)
        return (found, slope.sum(dim=(0, 2, 3)).view(devices, -1)) if self.bias else (found,)

    def _backward(self, slope: Tensor, seen: Tensor, weight: Tensor, devices: int, wanted: list[bool]) -> Parts:
        places = (self._stride, self._padding, self._dilation)
        found: Parts = backward_of(slope, seen, weight, None, *places, False, [0, 0], devices * self._groups, wanted)
        return found


def _samples_as_devices(values: Tensor) -> Tensor:
    """[devices, batch, channels, height, width] -> [1, devices batch channels, height, width], pixel by pixel."""
    by_pixel = values.permute(3, 4, 0, 1, 2).reshape(1, *values.shape[3:], -1)
    return by_pixel.permute(0, 3, 1, 2)
