"""Pooling, which treats every channel alike, whosever it is."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from airfl.local.layers.layer import Parts, pictures, slope_like

aten = torch.ops.aten


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


class MaxPool:
    """The largest of every window."""

    def __init__(self, module: nn.Module) -> None:
        layer = cast(nn.MaxPool2d, module)
        stride = layer.kernel_size if layer.stride is None else layer.stride
        sizes = [_pair(value) for value in (layer.kernel_size, stride, layer.padding, layer.dilation)]
        self._window = (*sizes, layer.ceil_mode)

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """See `Layer`."""
        seen = pictures(inputs[0])
        found, where = aten.max_pool2d_with_indices(seen, *self._window)
        return found, (inputs[0], seen, where)

    def backward(self, parts: Parts, saved: tuple[Tensor, Tensor, Tensor], slope: Tensor) -> Parts:
        """See `Layer`."""
        given, seen, where = saved
        found = aten.max_pool2d_with_indices_backward(slope, seen, *self._window, where)
        return (slope_like(given, found),)


class AdaptiveAveragePool:
    """The mean of windows that divide a picture into so many."""

    def __init__(self, module: nn.Module) -> None:
        sizes = _pair(cast(nn.AdaptiveAvgPool2d, module).output_size)
        if None in sizes:
            raise NotImplementedError("an output size that is the input's")
        self._sizes = sizes

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """See `Layer`."""
        seen = pictures(inputs[0])
        return aten._adaptive_avg_pool2d(seen, self._sizes), (inputs[0], seen)

    def backward(self, parts: Parts, saved: tuple[Tensor, Tensor], slope: Tensor) -> Parts:
        """See `Layer`."""
        given, seen = saved
        return (slope_like(given, aten._adaptive_avg_pool2d_backward(slope, seen)),)
