"""Group normalisation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from airfl.local.layers.layer import Parts, pictures, slope_like, squares_of

Saved = tuple[Tensor, Tensor, Tensor, Tensor]


class GroupNorm:
    """Groups of channels to mean 0 and variance 1, then a scale and an offset a channel, or a group where the module's
    parameters are as many as its groups."""

    def __init__(self, module: Any, groups: int, eps: float) -> None:
        self._groups, self._eps, self._affine = groups, eps, module.weight.numel()

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Saved]:
        """See `Layer`."""
        seen = pictures(inputs[0])
        batch, channels, height, width = seen.shape
        groups = devices * self._groups
        # without the affine pair, whose shape is not torch's, so that what is saved is the normalised picture
        found, _, spread = torch.native_group_norm(seen, None, None, batch, channels, height * width, groups, self._eps)
        scaled = torch.addcmul(self._spread(parts[1], channels), found, self._spread(parts[0], channels))
        return scaled, (inputs[0], found, spread, seen)

    def backward(self, parts: Parts, saved: Saved, slope: Tensor) -> Parts:
        """(d - mean(d) - y mean(d y))/std within each group, for d = slope times scale and the normalised y."""
        given, found, spread, _ = saved
        batch, channels = found.shape[:2]
        inner = slope * self._spread(parts[0], channels)
        groups = spread.shape[1]
        split = (batch, groups, channels // groups)
        count = found[0].numel() // groups
        mean = inner.sum(dim=(2, 3)).view(split).sum(dim=2) / count
        along = (inner * found).sum(dim=(2, 3)).view(split).sum(dim=2) / count

        def widen(values: Tensor) -> Tensor:
            return values.repeat_interleave(channels // groups, dim=1)[:, :, None, None]

        result = (inner - widen(mean) - found * widen(along)) * widen(spread)
        return (slope_like(given, result),)

    def gradient(self, saved: Saved, slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`."""
        scale, offset = self.each(saved, slope, devices)
        return scale.sum(dim=1), offset.sum(dim=1)

    def each(self, saved: Saved, slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`."""
        scale, offset = (part.sum(dim=(2, 3)) for part in (slope * saved[1], slope))
        shape = (len(slope), devices, self._affine, -1)
        return (
            scale.reshape(shape).sum(dim=3).transpose(0, 1),
            offset.reshape(shape).sum(dim=3).transpose(0, 1),
        )

    def squares(self, saved: Saved, slope: Tensor, devices: int) -> Tensor:
        """See `ParametricLayer`."""
        return squares_of(self.each(saved, slope, devices))

    def _spread(self, part: Tensor, channels: int) -> Tensor:
        """[devices, affine] -> [1, devices channels, 1, 1]."""
        flat = part.reshape(-1)
        return flat.repeat_interleave(channels // len(flat)).view(1, -1, 1, 1)
