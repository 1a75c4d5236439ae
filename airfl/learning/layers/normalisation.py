"""Group normalisation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from airfl.learning.layers.layer import Tensors, feature_maps, gradient_like, squares_of

Saved = tuple[Tensor, Tensor, Tensor, Tensor]


class GroupNorm:
    """Group norm with one scale and offset per channel, or per group where the module has as many as it has groups."""

    def __init__(self, module: Any, groups: int, eps: float) -> None:
        self._groups, self._eps, self._affine = groups, eps, module.weight.numel()

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Saved]:
        """Normalise, scale and shift; the inputs, the normalised values, 1/std and the feature maps are saved."""
        maps = feature_maps(inputs[0])
        batch, channels, height, width = maps.shape
        groups = devices * self._groups
        # The affine map is applied separately: its shape is not torch's, and the normalised values must be saved.
        if maps.is_cuda:
            normalised, inverse_std = _normalised(maps, groups, self._eps)
        else:
            normalised, _, inverse_std = torch.native_group_norm(
                maps, None, None, batch, channels, height * width, groups, self._eps
            )
        outputs = torch.addcmul(
            self._per_channel(parameters[1], channels), normalised, self._per_channel(parameters[0], channels)
        )
        return outputs, (inputs[0], normalised, inverse_std, maps)

    def backward(self, parameters: Tensors, saved: Saved, grad_output: Tensor) -> Tensors:
        """(d - mean(d) - y mean(d y))/std within each group, where d is grad_output times scale and y is normalised."""
        inputs, normalised, inverse_std, _ = saved
        batch, channels = normalised.shape[:2]
        grad_normalised = grad_output * self._per_channel(parameters[0], channels)
        groups = inverse_std.shape[1]
        split = (batch, groups, channels // groups)
        count = normalised[0].numel() // groups
        mean = grad_normalised.sum(dim=(2, 3)).view(split).sum(dim=2) / count
        mean_product = (grad_normalised * normalised).sum(dim=(2, 3)).view(split).sum(dim=2) / count

        def widen(values: Tensor) -> Tensor:
            return values.repeat_interleave(channels // groups, dim=1)[:, :, None, None]

        grad_maps = (grad_normalised - widen(mean) - normalised * widen(mean_product)) * widen(inverse_std)
        return (gradient_like(inputs, grad_maps),)

    def gradient(self, saved: Saved, grad_output: Tensor, devices: int) -> Tensors:
        """Return the gradients of scale and offset."""
        scale, offset = self.each(saved, grad_output, devices)
        return scale.sum(dim=1), offset.sum(dim=1)

    def each(self, saved: Saved, grad_output: Tensor, devices: int) -> Tensors:
        """Return the per-sample gradients of scale and offset."""
        scale, offset = (part.sum(dim=(2, 3)) for part in (grad_output * saved[1], grad_output))
        shape = (len(grad_output), devices, self._affine, -1)
        return (
            scale.reshape(shape).sum(dim=3).transpose(0, 1),
            offset.reshape(shape).sum(dim=3).transpose(0, 1),
        )

    def squares(self, saved: Saved, grad_output: Tensor, devices: int) -> Tensor:
        """Return the squared norms of the per-sample gradients."""
        return squares_of(self.each(saved, grad_output, devices))

    def _per_channel(self, parameter: Tensor, channels: int) -> Tensor:
        """[devices, affine] -> [1, devices channels, 1, 1]."""
        flat = parameter.reshape(-1)
        return flat.repeat_interleave(channels // len(flat)).view(1, -1, 1, 1)


def _normalised(maps: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor]:
    """Return normalised feature maps, channels last, and 1/std, [batch, groups].

    torch's kernel for GPUs refuses channels last.
    """
    batch, channels, height, width = maps.shape
    values = maps.permute(0, 2, 3, 1).reshape(batch, height * width, groups, channels // groups)
    variance, mean = torch.var_mean(values, dim=(1, 3), correction=0, keepdim=True)
    inverse_std = (variance + eps).rsqrt()
    normalised = (values - mean).mul_(inverse_std).view(batch, height, width, channels)
    return normalised.permute(0, 3, 1, 2), inverse_std.view(batch, groups)
